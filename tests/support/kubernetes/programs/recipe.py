"""What is built of Kubernetes: versions, programs, flags, and the modules that they are built in.

`KEY` changes with everything that may change a program. Only versions that the Go module proxy and its checksum
database serve can be built; some releases are missing there.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

KUBERNETES = "v1.37.0"
COREDNS = "v1.14.7"
HELM = "v3.22.0"
"""It has the libraries of that Kubernetes, so that little of it is compiled beside kubectl."""
LIBRARIES = KUBERNETES.replace("v1.", "v0.")
"""The version of k8s.io/api and its siblings in this release."""
TAGS = "grpcnotrace"


@dataclass(frozen=True, slots=True)
class Component:
    """A program. module: the folder whose go.mod it is built with; package: its Go package."""

    name: str
    module: str
    package: str


def _of_kubernetes(name: str) -> Component:
    return Component(name, "kubernetes", f"k8s.io/kubernetes/cmd/{name}")


CONTROL = (
    # etcd is in the release's own graph of modules, so its version is the release's
    Component("etcd", "kubernetes", "go.etcd.io/etcd/server/v3"),
    _of_kubernetes("kube-apiserver"),
    _of_kubernetes("kube-controller-manager"),
    _of_kubernetes("kubectl"),
)
"""Programs of a control cluster. They are built first: their tests begin while the rest is built."""
NODE = (
    *CONTROL,
    Component("pause", "pause", "."),
    _of_kubernetes("kube-scheduler"),
    _of_kubernetes("kubelet"),
    _of_kubernetes("kube-proxy"),
    Component("coredns", "coredns", "."),
)
"""Programs of a cluster with nodes, in the order in which they are built."""

CHARTS = Component(f"helm-template-{HELM}", "helm", ".")
"""Renders a chart by Helm's engine: CHART RELEASE NAMESPACE [VALUES]. Its version is in its name, not in the key."""
EVERYTHING = (*NODE, CHARTS)
"""What is built where nothing else is asked for."""

COREDNS_MAIN = """\
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/kubernetes"
)

func main() {
	dnsserver.Directives = []string{"errors", "kubernetes"}
	coremain.Run()
}
"""
"""CoreDNS with the two plugins that a test cluster uses."""
COREDNS_MODULE = "\n".join(
    [
        "module corednsbuild",
        "go 1.26.0",
        f"require github.com/coredns/coredns {COREDNS}",
        # the client that the other programs have compiled already
        *(f"replace k8s.io/{name} => k8s.io/{name} {LIBRARIES}" for name in ("api", "apimachinery", "client-go")),
        "",
    ]
)
HELM_MAIN = """\
package main

import (
	"fmt"
	"os"
	"sort"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
)

func main() {
	if err := render(os.Args[1], os.Args[2], os.Args[3], os.Args[4:]); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

func render(folder, release, namespace string, files []string) error {
	chart, err := loader.Load(folder)
	if err != nil {
		return err
	}
	values := chartutil.Values{}
	for _, file := range files {
		if values, err = chartutil.ReadValuesFile(file); err != nil {
			return err
		}
	}
	options := chartutil.ReleaseOptions{Name: release, Namespace: namespace, Revision: 1, IsInstall: true}
	complete, err := chartutil.ToRenderValues(chart, values, options, nil)
	if err != nil {
		return err
	}
	rendered, err := engine.Render(chart, complete)
	if err != nil {
		return err
	}
	names := make([]string, 0, len(rendered))
	for name := range rendered {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		fmt.Printf("---\\n%s\\n", rendered[name])
	}
	return nil
}
"""
"""`helm template` without the rest of Helm: it merges and checks values, and renders."""
HELM_MODULE = f"module helmbuild\n\ngo 1.26.0\n\nrequire helm.sh/helm/v3 {HELM}\n"
PAUSE_MAIN = """\
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGCHLD)
	for received := range signals {
		if received != syscall.SIGCHLD {
			return
		}
		for {
			if pid, _ := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); pid <= 0 {
				break
			}
		}
	}
}
"""
"""Process 1 of a pod: it holds the pod's namespaces and reaps its processes."""
PAUSE_MODULE = "module pausebuild\n\ngo 1.26\n"


def release_module(text: str) -> str:
    """Returns the go.mod to build with, from the release's own, whose pins stay: only its name and its libraries, which
    the release replaces by folders of its repository, change.
    """
    named = re.sub(r"^module .*$", "module kubernetesbuild", text, flags=re.MULTILINE)
    staged = r"=> \./staging/src/(k8s\.io/[a-z0-9.-]+)$"
    published = re.sub(staged, rf"=> \1 {LIBRARIES}", named, flags=re.MULTILINE)
    return f"{published}\nrequire k8s.io/kubernetes {KUBERNETES}\n"


def linker_flags() -> str:
    """Returns flags for small programs that know their version."""
    major, minor, _ = KUBERNETES.removeprefix("v").split(".")
    facts = {
        "gitVersion": KUBERNETES,
        "gitMajor": major,
        "gitMinor": minor,
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
    }
    packages = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    settings = (f"-X {package}.{name}={fact}" for package in packages for name, fact in facts.items())
    return " ".join(["-s -w", *settings])


def key(go_version: str) -> str:
    """Returns what the binaries of this recipe are called if that Go builds them."""
    parts = (
        *(go_version, KUBERNETES, TAGS, linker_flags(), repr(NODE)),
        *(COREDNS_MAIN, COREDNS_MODULE, PAUSE_MAIN, PAUSE_MODULE, release_module("module any\n")),
    )
    return f"{KUBERNETES}-{hashlib.sha256(chr(0).join(parts).encode()).hexdigest()[:12]}"
