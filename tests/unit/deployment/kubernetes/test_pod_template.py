"""A user's pod template, merged into ours."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headrace.core.errors import UserError
from headrace.deployment.kubernetes.pod_template import checked_template, merged

OURS: dict[str, Any] = {
    "metadata": {"labels": {"app": "headrace"}},
    "spec": {
        "containers": [
            {
                "name": "worker",
                "image": "headrace:1",
                "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
                "volumeMounts": [{"name": "home", "mountPath": "/var/lib/headrace"}],
                "resources": {"requests": {"cpu": "1", "memory": "2Gi"}},
            }
        ],
        "volumes": [{"name": "home", "emptyDir": {}}],
    },
}


def with_worker(**fields: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "worker", **fields}]}}


def worker_of(template: dict[str, Any]) -> dict[str, Any]:
    (found,) = (each for each in template["spec"]["containers"] if each["name"] == "worker")
    assert isinstance(found, dict)
    return found


def test_what_the_user_gives_wins_and_the_rest_stays() -> None:
    before = deepcopy(OURS)
    found = merged(OURS, with_worker(image="mine:2", resources={"requests": {"memory": "8Gi"}}))
    worker = worker_of(found)
    assert worker["image"] == "mine:2"
    assert worker["resources"] == {"requests": {"cpu": "1", "memory": "8Gi"}}
    assert worker["env"] == worker_of(before)["env"]
    assert before == OURS


def test_named_entries_are_merged_one_by_one() -> None:
    found = merged(OURS, with_worker(env=[{"name": "B", "value": "3"}, {"name": "C", "value": "4"}]))
    assert worker_of(found)["env"] == [
        {"name": "A", "value": "1"},
        {"name": "B", "value": "3"},
        {"name": "C", "value": "4"},
    ]
    mounts = merged(OURS, with_worker(volumeMounts=[{"name": "data", "mountPath": "/data"}]))
    assert [each["mountPath"] for each in worker_of(mounts)["volumeMounts"]] == ["/var/lib/headrace", "/data"]
    volumes = merged(OURS, {"spec": {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "x"}}]}})
    assert [each["name"] for each in volumes["spec"]["volumes"]] == ["home", "data"]


def test_a_side_car_is_one_more_container() -> None:
    found = merged(OURS, {"spec": {"containers": [{"name": "proxy", "image": "proxy:1"}]}})
    assert [each["name"] for each in found["spec"]["containers"]] == ["worker", "proxy"]


def test_other_lists_and_scalars_are_the_users() -> None:
    theirs = {
        "tolerations": [{"key": "spot", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
        "serviceAccountName": "workload-identity",
        "imagePullSecrets": [{"name": "registry"}],
    }
    assert merged(OURS, {"spec": theirs})["spec"] == {**OURS["spec"], **theirs}


def test_null_leaves_a_field_out() -> None:
    assert "resources" not in worker_of(merged(OURS, with_worker(resources=None)))


def test_null_leaves_a_field_out_of_entries_that_only_the_user_has() -> None:
    found = merged(OURS, {"spec": {"initContainers": [{"name": "first", "image": "first:1", "command": None}]}})
    assert found["spec"]["initContainers"] == [{"name": "first", "image": "first:1"}]


def test_entries_of_one_key_replace_ours() -> None:
    ours = {"ports": [{"containerPort": 53}, {"containerPort": 80}]}
    both = [{"containerPort": 53, "protocol": "TCP"}, {"containerPort": 53, "protocol": "UDP"}]
    assert merged(ours, {"ports": both})["ports"] == [{"containerPort": 80}, *both]


DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=10,
)
MAPPINGS = st.dictionaries(st.sampled_from(["a", "b", "env"]), DOCUMENTS, max_size=3)


@given(MAPPINGS, MAPPINGS)
@example({}, {"env": [{"": None}]})
@example({}, {"env": [{"a": 1}, {"b": 2}, {"name": "c"}]})
def test_merging_twice_changes_nothing_more(ours: dict[str, Any], users: dict[str, Any]) -> None:
    once = merged(ours, users)
    assert merged(once, users) == once


@pytest.mark.parametrize(
    "document",
    [
        {"spec": {"nodeSelector": {"a": "b"}}},
        {"apiVersion": "v1", "kind": "Pod", "spec": {"nodeSelector": {"a": "b"}}},
        {"apiVersion": "v1", "kind": "PodTemplate", "template": {"spec": {"nodeSelector": {"a": "b"}}}},
    ],
)
def test_a_template_is_a_pod_or_less(document: dict[str, Any]) -> None:
    assert checked_template(document, "pod.yaml") == {"spec": {"nodeSelector": {"a": "b"}}}


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ([], "pod.yaml is no pod template"),
        (None, "pod.yaml is no pod template"),
        ({"kind": "Deployment", "spec": {}}, "pod.yaml is a Deployment"),
        ({"containers": []}, "'containers' is no field of a pod template"),
        ({"spec": []}, "pod.yaml is no pod template"),
        ({"kind": "PodTemplate"}, "pod.yaml is a PodTemplate"),
    ],
)
def test_anything_else_is_refused_with_its_place(document: object, said: str) -> None:
    with pytest.raises(UserError, match=said) as caught:
        checked_template(document, "pod.yaml")
    assert caught.value.remedy
