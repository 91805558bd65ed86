"""Requests and answers byte for byte as kafka-python has them, which generates its own from Kafka's definitions."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.admin.configs import DescribeConfigsRequest, DescribeConfigsResponse
from kafka.protocol.admin.transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from kafka.protocol.metadata import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataRequest,
    MetadataResponse,
)
from kafka.protocol.producer.transaction import (
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from kafka.protocol.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

from headrace_connectors.kafka.requests.requests import (
    BrokerPlace,
    Coordinator,
    CoordinatorPlace,
    EndCall,
    RawDescription,
    Request,
    SaslAnswer,
    api_versions,
    broker_setting,
    describe_transactions,
    end_transaction,
    find_coordinators,
    init_producer_id,
    list_transactions,
    metadata,
    sasl_authenticate,
    sasl_handshake,
)
from headrace_connectors.kafka.requests.wire_format import MalformedAnswerError, MessageReader, MessageWriter

NAME, OTHER = "headrace-j-out-1-0-0", "headrace-käse-out-1-0-1"
CALL = EndCall(NAME, 1 << 40, 7, committed=True)
DESCRIBED = DescribeTransactionsResponse.TransactionState
CONFIGS = DescribeConfigsResponse.DescribeConfigsResult
CONFIG = CONFIGS.DescribeConfigsResourceResult


def settings(version: int) -> Any:
    synonym = CONFIG.DescribeConfigsSynonym(name="log.x", value=None, source=5)
    rows = [
        CONFIG(name=name, value=value, read_only=False, config_source=5, is_sensitive=False, synonyms=[synonym])
        for name, value in (("another", None), ("transaction.max.timeout.ms", "900000"))
    ]
    result = CONFIGS(error_code=0, error_message=None, resource_type=4, resource_name="1", configs=rows)
    return DescribeConfigsResponse(throttle_time_ms=1, results=[result], version=version)


def coordinators(version: int) -> Any:
    row = FindCoordinatorResponse.Coordinator
    return FindCoordinatorResponse(
        throttle_time_ms=0,
        coordinators=[
            row(key=NAME, node_id=3, host="b3", port=9093, error_code=0, error_message=None),
            row(key=OTHER, node_id=-1, host="", port=-1, error_code=15, error_message="loads"),
        ],
        version=version,
    )


def described(version: int) -> Any:
    topic = DESCRIBED.TopicData
    there = DESCRIBED(
        error_code=0,
        transactional_id=NAME,
        transaction_state="Ongoing",
        transaction_timeout_ms=60_000,
        transaction_start_time_ms=1_700_000_000_000,
        producer_id=1 << 40,
        producer_epoch=7,
        topics=[topic(topic="t", partitions=[2, 0]), topic(topic="u", partitions=[1])],
    )
    unknown = DESCRIBED(
        error_code=105,
        transactional_id=OTHER,
        transaction_state="",
        transaction_timeout_ms=0,
        transaction_start_time_ms=0,
        producer_id=0,
        producer_epoch=0,
        topics=[],
    )
    return DescribeTransactionsResponse(throttle_time_ms=0, transaction_states=[there, unknown], version=version)


def listed(version: int) -> Any:
    row = ListTransactionsResponse.TransactionState
    return ListTransactionsResponse(
        throttle_time_ms=0,
        error_code=0,
        unknown_state_filters=["Odd"],
        transaction_states=[row(transactional_id=NAME, producer_id=5, transaction_state="Ongoing")],
        version=version,
    )


def brokers(version: int) -> Any:
    row = MetadataResponse.MetadataResponseBroker
    return MetadataResponse(
        throttle_time_ms=0,
        brokers=[row(node_id=1, host="b1", port=9092, rack=None), row(node_id=2, host="b2", port=9093, rack="r")],
        cluster_id="c",
        controller_id=1,
        topics=[],
        version=version,
    )


RESOURCE = DescribeConfigsRequest.DescribeConfigsResource
API_VERSION = ApiVersionsResponse.ApiVersion
CASES: list[tuple[Request[object], Any, Any, object]] = [
    (
        api_versions(),
        lambda version: ApiVersionsRequest(version=version),
        lambda version: ApiVersionsResponse(
            error_code=0, api_keys=[API_VERSION(api_key=26, min_version=0, max_version=5)], version=version
        ),
        (0, {26: (0, 5)}),
    ),
    (
        sasl_handshake("PLAIN"),
        lambda version: SaslHandshakeRequest(mechanism="PLAIN", version=version),
        lambda version: SaslHandshakeResponse(error_code=33, mechanisms=["SCRAM-SHA-256"], version=version),
        (33, ["SCRAM-SHA-256"]),
    ),
    (
        sasl_authenticate(b"\0ann\0p"),
        lambda version: SaslAuthenticateRequest(auth_bytes=b"\0ann\0p", version=version),
        lambda version: SaslAuthenticateResponse(
            error_code=58, error_message="no", auth_bytes=b"x", session_lifetime_ms=5_000, version=version
        ),
        SaslAnswer(58, "no", b"x", 5_000),
    ),
    (
        metadata(),
        lambda version: MetadataRequest(topics=[], allow_auto_topic_creation=False, version=version),
        brokers,
        [BrokerPlace(1, "b1", 9092), BrokerPlace(2, "b2", 9093)],
    ),
    (
        find_coordinators([NAME, OTHER]),
        lambda version: FindCoordinatorRequest(key_type=1, coordinator_keys=[NAME, OTHER], version=version),
        coordinators,
        [
            CoordinatorPlace(NAME, Coordinator(0, 3), BrokerPlace(3, "b3", 9093)),
            CoordinatorPlace(OTHER, Coordinator(15, -1), BrokerPlace(-1, "", -1)),
        ],
    ),
    (
        describe_transactions([NAME, OTHER]),
        lambda version: DescribeTransactionsRequest(transactional_ids=[NAME, OTHER], version=version),
        described,
        {
            NAME: RawDescription(0, "Ongoing", 1 << 40, 7, 1_700_000_000_000, 60_000, {"t": (0, 2), "u": (1,)}),
            OTHER: RawDescription(105, "", 0, 0, 0, 0, {}),
        },
    ),
    (
        end_transaction(CALL),
        lambda version: EndTxnRequest(
            transactional_id=NAME, producer_id=1 << 40, producer_epoch=7, committed=True, version=version
        ),
        lambda version: EndTxnResponse(throttle_time_ms=0, error_code=48, version=version),
        48,
    ),
    (
        init_producer_id(NAME, timeout_ms=10_000),
        lambda version: InitProducerIdRequest(
            transactional_id=NAME,
            transaction_timeout_ms=10_000,
            producer_id=-1,
            producer_epoch=-1,
            version=version,
        ),
        lambda version: InitProducerIdResponse(
            throttle_time_ms=0, error_code=51, producer_id=-1, producer_epoch=-1, version=version
        ),
        51,
    ),
    (
        list_transactions(["Ongoing", "PrepareAbort"], r"\Qheadrace-\E.*"),
        lambda version: ListTransactionsRequest(
            state_filters=["Ongoing", "PrepareAbort"],
            producer_id_filters=[],
            duration_filter=-1,
            transactional_id_pattern=r"\Qheadrace-\E.*",
            version=version,
        ),
        listed,
        (0, {NAME: "Ongoing"}),
    ),
    (
        broker_setting(1, "transaction.max.timeout.ms"),
        lambda version: DescribeConfigsRequest(
            resources=[RESOURCE(resource_type=4, resource_name="1", configuration_keys=["transaction.max.timeout.ms"])],
            include_synonyms=False,
            include_documentation=False,
            version=version,
        ),
        settings,
        (0, "900000"),
    ),
]


each_version = pytest.mark.parametrize(
    ("request_", "asked", "answered", "expected", "version"),
    [
        pytest.param(*case, version, id=f"{case[0].name}-v{version}")
        for case in CASES
        for version in range(case[0].lowest, case[0].highest + 1)
    ],
)


@each_version
def test_the_same_bytes(request_: Request[object], asked: Any, answered: Any, expected: object, version: int) -> None:
    oracle = asked(version)
    oracle.with_header(correlation_id=77, client_id="headrace")
    assert request_.content(version, 77, "headrace") == bytes(oracle.encode(header=True))
    assert request_.api_key == oracle.API_KEY

    answer = answered(version)
    answer.with_header(correlation_id=77)
    raw = bytes(answer.encode(header=True))
    assert int.from_bytes(raw[:4], "big") == 77
    assert request_.answer(version, raw[4:]) == expected


def test_endtxn_never_is_of_the_protocol_that_raises_epochs() -> None:
    assert end_transaction(CALL).highest == 4


@each_version
def test_an_answer_that_ends_too_soon_is_malformed(
    request_: Request[object], asked: Any, answered: Any, expected: object, version: int
) -> None:
    answer = answered(version)
    answer.with_header(correlation_id=1)
    raw = bytes(answer.encode(header=True))[4:]
    for size in range(len(raw)):
        try:
            found = request_.answer(version, raw[:size])
        except MalformedAnswerError:
            continue
        # what follows the part that is read may be missing: an error's text, tags, what is new in later versions
        assert found == expected


@given(st.text(), st.integers(0, 2**31 - 1), st.binary(), st.booleans())
def test_what_is_written_is_read(text: str, number: int, content: bytes, flexible: bool) -> None:
    writer = MessageWriter(flexible=flexible)
    writer.array([text, ""], writer.string)
    writer.string(None)
    writer.varint(number)
    writer.bytes_(content)
    writer.end_struct()
    reader = MessageReader(writer.content(), flexible=flexible)
    assert reader.array(reader.string) == [text, ""]
    assert reader.nullable_string() is None
    assert (reader.varint(), reader.bytes_()) == (number, content)
    reader.end_struct()
    with pytest.raises(MalformedAnswerError):
        reader.int8()


@given(st.binary(max_size=60), st.sampled_from(CASES))
def test_random_bytes_are_read_or_malformed(raw: bytes, case: Any) -> None:
    request = case[0]
    for version in range(request.lowest, request.highest + 1):
        with suppress(MalformedAnswerError):
            request.answer(version, raw)
