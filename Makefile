# Fairlead: `make help` lists the targets. Everything heavy is cached outside the checkout, under $(CACHE).
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/fairlead
export CARGO_TARGET_DIR ?= $(CACHE)/cargo-target
export MYPY_CACHE_DIR ?= $(CACHE)/mypy
# Bytecode of tests and programs is kept beside them: without it each of some 400 Python processes of `make test` compiles all it imports.
unexport PYTHONDONTWRITEBYTECODE
# A skip whose reason does not fit this expression fails; empty: every skip does. A file system in memory has no disk to look at, and
# control groups of version 2 do not limit what all processes write. On a busy machine a transfer may be over before it is disturbed.
export FAIRLEAD_EXPECTED_SKIPS ?= does not show which files are on the disk|kernel cannot slow a disk|over before its disturbance took place
PYTHON ?= python3.11
CLUSTER ?= local
CLUSTER_CLI := hack/cluster/cluster
CLUSTER_DOWN = [ -n "$(KEEP)" ] || $(CLUSTER_CLI) down
# What brings the cluster up, changes it and stops it has it to itself. The kernel frees the lock when the recipe's shell has ended, in
# whatever way; the commands of the recipe, of which some may stay, do not get it: they are within `{ …; } {use}>&-`.
USE_CLUSTER = mkdir -p $(CACHE); exec {use}>>$(CACHE)/.use.lock; \
	flock --nonblock $$use || { echo "The local cluster is in use by \`$$(cat $(CACHE)/.use.lock)\`: try again when that has ended." >&2; exit 1; }; \
	echo "make $@ in $(CURDIR), process $$$$" >$(CACHE)/.use.lock
ADVISOR_PROGRAM_TESTS := serve test_cli.py
ADVISOR_SOCKET_TESTS := probe steer
DEV_PROGRAM_TESTS := testbed/lab bench/decisions/lab/test_cell.py
TYPED := operator/fairlead images/advisor/fairlead_advisor hack/fairlead_dev hack/tests/clients hack/tests/netlab hack/tests/demo hack/tests/trees hack/tests/chart hack/tests/bench/house hack/tests/bench/mover e2e
# One set of packages and features for every test: another one compiles all of it again.
CARGO_TEST := hack/cargo test --quiet --locked --workspace --features fairlead-mover/fault-injection
# Names of test files, as cargo takes them.
rust_tests = $(addprefix --test ,$(basename $(notdir $(wildcard $(1)))))
VENV := .venv/bin
ATTACK := $(VENV)/python -m e2e.attacks $(if $(SEED),--seed $(SEED))
FAULTS := $(VENV)/python operator/tests/apiserver/fault_suite.py
FUZZ := $(VENV)/python operator/tests/apiserver/fuzz_suite.py
ASK_BOARDS = $(VENV)/python -m fairlead_dev.boards ask --prometheus $(PROMETHEUS) $(or $(BOARDS_FLAGS),--minutes 60)
# Its cache is a database that two checkouts must not write at a time.
MYPY := flock $(CACHE)/.mypy.lock $(VENV)/mypy

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  \033[1m%-16s\033[0m %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: $(if $(filter local,$(CLUSTER)),setup,python) ## Move a real directory between two nodes over a 200 Mb/s, 60 ms link (CLUSTER=local|kind|current); BOARDS=1: watched by Prometheus, its boards drawn
	$(if $(filter local,$(CLUSTER)),$(USE_CLUSTER); trap : EXIT;) { \
	$(VENV)/python -m fairlead_dev.demo --cluster $(CLUSTER) $(if $(BOARDS),--boards) $(DEMO_FLAGS); } $(if $(filter local,$(CLUSTER)),{use}>&-)

.PHONY: test
test: setup ## Everything: lint, unit tests, whole programs, a real API server, a quarter of the attacks, end to end on the local cluster
	$(USE_CLUSTER); trap '$(CLUSTER_DOWN)' EXIT; { \
	$(MAKE) --jobs 2 e2e-on-cluster beside-e2e && \
	$(MAKE) test-programs BESIDE='attacks-on-cluster unit-advisor-sockets'; } {use}>&-

.PHONY: setup
setup: packages python programs ## Install and build what is missing: .venv, programs in build/bin

.PHONY: packages
packages: ## System packages and kernel features: install what is missing, or say so
	@$(CLUSTER_CLI) preflight --install

.PHONY: python
python: .venv/.installed ## The Python environment from the hashed locks

.venv/.installed: hack/python/dev.lock operator/pyproject.toml images/advisor/pyproject.toml hack/pyproject.toml
	@hack/python/venv $(PYTHON) $(CACHE)
	touch $@

.PHONY: programs
programs: rust ## kubectl, helm, the API server and the nodes' programs (from the Go module proxy; 25 minutes the first time)
	@$(CLUSTER_CLI) build

.PHONY: rust
rust: ## The mover and the WAN emulator, as release binaries in build/bin
	@echo 'rust: building the mover and the WAN emulator (some 5 minutes the first time)'
	RUSTFLAGS='-C target-feature=+crt-static' hack/cargo build --locked --release --target x86_64-unknown-linux-gnu -p fairlead-mover -p fairlead-wan

.PHONY: lint
lint: python verify ## Formatters, linters, types, layers, generated files
	$(MAKE) --jobs 2 --output-sync=target lint-python lint-rust
	$(MAKE) lint-chart
	$(MAKE) lint-monitoring

.PHONY: lint-python
lint-python:
	$(VENV)/ruff check .
	$(VENV)/ruff format --check .
	$(MYPY) $(TYPED)
	$(VENV)/lint-imports

.PHONY: lint-chart
lint-chart: ## helm lint --strict and kubeconform, for each set of values in charts/fairlead/ci
	$(VENV)/python -m fairlead_dev.chart

.PHONY: lint-monitoring
lint-monitoring: ## promtool: the rules, their unit tests, and names and help of all metrics
	$(VENV)/python -m fairlead_dev.monitoring

.PHONY: lint-rust
lint-rust:
	cargo fmt --all --check
	hack/cargo clippy --quiet --locked --workspace -- -D warnings
	# The tests that need faults are left out without them.
	hack/cargo clippy --quiet --locked --workspace --all-targets --features fairlead-mover/fault-injection -- -D warnings

.PHONY: generate
generate: python ## CRDs, the chart's copies and reference pages, from operator/fairlead/api and the chart's values
	$(VENV)/python -m fairlead_dev.generate

.PHONY: verify
verify: python ## Fail if a generated file is out of date
	$(VENV)/python -m fairlead_dev.generate --check

.PHONY: site
site: python ## The documentation as a site, in build/site (to read it: python3 -m http.server -d build/site)
	NO_MKDOCS_2_WARNING=1 $(VENV)/mkdocs build --quiet --strict -f hack/site/mkdocs.yml

.PHONY: site-look
site-look: site ## The site in headless Chromium, 1280 and 390 px wide: pictures in build/site-look, a search, no page wider than its window (LOOK_FLAGS='--page reference/metrics/')
	$(VENV)/python -m fairlead_dev.site.look --install $(LOOK_FLAGS)

.PHONY: test-unit
test-unit: python ## Tables, properties and small parts, in a minute
	$(MAKE) --jobs 3 --output-sync=target unit-dev unit-operator unit-advisor unit-rust

.PHONY: unit-operator
unit-operator:
	$(VENV)/pytest -q -n $(or $(UNIT_WORKERS),2) operator/tests --ignore operator/tests/apiserver --ignore operator/tests/cilium

.PHONY: unit-dev
unit-dev:
	$(VENV)/pytest -q hack/tests $(addprefix --ignore hack/tests/,$(DEV_PROGRAM_TESTS))
	$(VENV)/pytest -q -n 0 e2e/tests_lib

.PHONY: unit-advisor
unit-advisor: unit-advisor-still unit-advisor-sockets

.PHONY: unit-advisor-still
unit-advisor-still:
	$(VENV)/pytest -q images/advisor/tests $(addprefix --ignore images/advisor/tests/,$(ADVISOR_PROGRAM_TESTS) $(ADVISOR_SOCKET_TESTS))

.PHONY: unit-advisor-sockets
unit-advisor-sockets:
	$(VENV)/pytest -q $(addprefix images/advisor/tests/,$(ADVISOR_SOCKET_TESTS))

.PHONY: unit-rust
unit-rust:
	$(CARGO_TEST) --lib --bins $(filter-out %fuzz %interop,$(subst --test ,--test=,$(call rust_tests,images/mover/crates/protocol/tests/*.rs images/mover/crates/udt/tests/*.rs)))

.PHONY: test-programs
test-programs: python rust ## The mover, the advisor and the WAN emulator as whole programs, on one machine
	$(CARGO_TEST) --tests --no-run
	$(MAKE) --jobs 2 --output-sync=target programs-wan-namespaces programs-beside-namespaces

# What measures one thing after the other lasts longest by itself, so the rest gives way to it.
.PHONY: programs-beside-namespaces
programs-beside-namespaces:
	nice -n 4 $(MAKE) --jobs 11 --output-sync=target programs-advisor programs-mover programs-dev $(BESIDE) programs-wan programs-udt $(if $(BESIDE),,programs-fuzz)

# Cargo runs one file after the other, and most of them wait for links and clocks: these parts of them run beside each other.
MOVER_PARTS := $(addprefix programs-mover-,a-o p q-r s-t u-z)
.PHONY: programs-mover programs-mover-conformance programs-mover-crash $(MOVER_PARTS)
programs-mover: programs-mover-conformance programs-mover-crash $(MOVER_PARTS)

# A case is some seconds of a link of its own with little to compute.
programs-mover-conformance:
	$(CARGO_TEST) --test conformance -- --test-threads 8

# Some hundred transfers one after the other, which would make the rest of a longer part wait.
programs-mover-crash:
	$(CARGO_TEST) --test crash -- --test-threads 4

$(MOVER_PARTS): programs-mover-%:
	$(CARGO_TEST) $(call rust_tests,$(filter-out %/conformance.rs %/crash.rs,$(wildcard images/mover/tests/[$*]*.rs)))

.PHONY: programs-wan programs-wan-namespaces
programs-wan:
	$(CARGO_TEST) $(call rust_tests,$(filter-out %/namespaces.rs,$(wildcard hack/wan/tests/*.rs)))

programs-wan-namespaces:
	$(CARGO_TEST) --test namespaces

# libudt gives a connection up that gets no processor for seconds, as what runs beside the end-to-end tests may not.
.PHONY: programs-udt
programs-udt:
	$(CARGO_TEST) --test interop

.PHONY: programs-advisor
programs-advisor:
	$(VENV)/pytest -q -n 8 --dist loadgroup $(addprefix images/advisor/tests/,$(ADVISOR_PROGRAM_TESTS))

.PHONY: programs-dev
programs-dev:
	$(VENV)/pytest -q -n 2 --dist loadfile $(addprefix hack/tests/,$(DEV_PROGRAM_TESTS))

.PHONY: programs-fuzz
programs-fuzz:
	FAIRLEAD_FUZZ_SECONDS=10 nice $(CARGO_TEST) --test fuzz

.PHONY: test-apiserver
test-apiserver: python ## CRD, CEL and the reconcile loop against a real API server
	$(VENV)/pytest -q $(if $(APISERVER_WORKERS),-n $(APISERVER_WORKERS)) operator/tests/apiserver --ignore operator/tests/apiserver/kueue --ignore operator/tests/apiserver/why

.PHONY: test-cilium
test-cilium: python ## The chart's CiliumNetworkPolicies by Cilium's own policy engine, which is built first (3 minutes; no part of `make test`)
	$(CLUSTER_CLI) build --only helm,cilium-policy
	$(VENV)/pytest -q -n 0 operator/tests/cilium

.PHONY: test-kueue
test-kueue: python ## A job in a queue of Kueue, which is built first (3 minutes; no part of `make test`)
	$(CLUSTER_CLI) build --only kubectl,helm,etcd,kube-apiserver,kueue
	$(VENV)/pytest -q -n 1 operator/tests/apiserver/kueue

.PHONY: test-tcp-variants
test-tcp-variants: python rust ## Every TCP congestion control of Debian's 6.1 kernel on the mover's live sockets, under QEMU: build/bench/tcp-variants.json (minutes; no part of `make test`; VARIANTS_FLAGS=--renew)
	$(VENV)/python -m fairlead_dev.bench.tcp_variants $(VARIANTS_FLAGS)

# helm, kubectl, API servers and the like spend a sixth of their processor time on garbage that needs not be collected so soon.
e2e-on-cluster attacks-on-cluster test-apiserver test-attacks unit-dev programs-dev lint: export GOGC := 400

# End-to-end tests wait for much, and in their second half they have the cluster one or two at a time. What runs beside them has a smaller
# weight: with the same one it would keep kubelets from starting pods for minutes. Those of the advisor's tests that probe real sockets are
# not among it: some seconds without a processor are a delay of the path to them.
.PHONY: beside-e2e
beside-e2e:
	$(VENV)/python -m fairlead_dev.aside $(MAKE) --jobs 1 lint tests-beside-e2e

# Each worker costs a collection, most also an API server. Beside the end-to-end tests, which last longer, fewer of them do.
.PHONY: tests-beside-e2e
tests-beside-e2e:
	$(MAKE) --jobs 2 --output-sync=target APISERVER_WORKERS=2 UNIT_WORKERS=0 test-apiserver tests-beside-apiserver

# Those of the API server wait most of all, so the rest gives way to them.
.PHONY: tests-beside-apiserver
tests-beside-apiserver:
	nice -n 4 $(MAKE) --jobs 4 --output-sync=target unit-operator test-attacks unit-dev unit-rust unit-advisor-still programs-fuzz

# Five minutes for what the tests of its parts hold too: beside `make test`, and in the bench.
.PHONY: test-why
test-why: python ## Bring failures about on a real API server, and ask `kubectl fairlead why` for each cause
	$(VENV)/pytest -q -n 2 operator/tests/apiserver/why

.PHONY: test-e2e
test-e2e: python ## The end-to-end suite on the local cluster; KEEP=1 leaves the cluster up
	$(USE_CLUSTER); trap '$(CLUSTER_DOWN)' EXIT; { \
	$(MAKE) e2e-on-cluster && \
	$(MAKE) attacks-on-cluster; } {use}>&-

# Ten workers would each load all that monitoring is checked with, and run none of it.
.PHONY: e2e-on-cluster
e2e-on-cluster:
	$(CLUSTER_CLI) up && $(CLUSTER_CLI) images
	FAIRLEAD_E2E_KUBECTL=kubectl $(CLUSTER_CLI) enter -- $(CURDIR)/$(VENV)/pytest -q e2e --ignore e2e/tests_lib --ignore e2e/test_monitoring.py

# The last to use the cluster, which costs processors while it is up.
.PHONY: attacks-on-cluster
attacks-on-cluster:
	trap '$(CLUSTER_DOWN)' EXIT; \
	$(ATTACK) --quarter cluster

.PHONY: test-extended
test-extended: setup ## On the local cluster: nodes, links and ports lost, a scavenger, shares of several paths (10 minutes; no part of `make test`); KEEP=1
	$(USE_CLUSTER); trap '$(CLUSTER_DOWN)' EXIT; { \
	$(CLUSTER_CLI) up && $(CLUSTER_CLI) images && \
	FAIRLEAD_E2E_KUBECTL=kubectl $(CLUSTER_CLI) enter -- $(CURDIR)/$(VENV)/pytest -q -n 3 -m extended e2e; } {use}>&-

.PHONY: test-monitoring
test-monitoring: setup ## Prometheus and its operator watch two tenants on the local cluster; both are built first (no part of `make test`); KEEP=1
	$(USE_CLUSTER); trap '$(CLUSTER_DOWN)' EXIT; { \
	$(CLUSTER_CLI) up && $(CLUSTER_CLI) images && $(CLUSTER_CLI) monitoring up && \
	FAIRLEAD_E2E_KUBECTL=kubectl $(CLUSTER_CLI) enter -- $(CURDIR)/$(VENV)/pytest -q -n 0 -m monitoring $(if $(JUNIT),--junitxml $(JUNIT)) e2e/test_monitoring.py; } {use}>&-

.PHONY: test-release
test-release: setup ## On the local cluster: an upgrade from the version before in mid-transfer, `helm test`, `helm uninstall` (no part of `make test`); KEEP=1
	$(USE_CLUSTER); trap '$(CLUSTER_DOWN)' EXIT; { \
	$(CLUSTER_CLI) up && $(CLUSTER_CLI) images && $(CLUSTER_CLI) images --of $$(cat hack/tests/chart/data/previous-commit) && \
	FAIRLEAD_E2E_KUBECTL=kubectl $(CLUSTER_CLI) enter -- $(CURDIR)/$(VENV)/pytest -q -n 0 -m release e2e/test_release.py; } {use}>&-

.PHONY: test-kueue-cluster
test-kueue-cluster: setup ## Jobs queued and displaced by Kueue on the local cluster; it is built first (3 minutes; no part of `make test`); KEEP=1
	$(USE_CLUSTER); trap '$(CLUSTER_DOWN)' EXIT; { \
	$(CLUSTER_CLI) up && $(CLUSTER_CLI) images && $(CLUSTER_CLI) kueue up && \
	FAIRLEAD_E2E_KUBECTL=kubectl $(CLUSTER_CLI) enter -- $(CURDIR)/$(VENV)/pytest -q -n 0 -m kueue e2e/test_kueue.py && \
	$(CLUSTER_CLI) kueue down; } {use}>&-

.PHONY: attacks
attacks: $(if $(AGAINST),python,setup) ## Attacks on whole programs: build/bench/attacks.json (ATTACKS='ID…', AGAINST=CHECKOUT, EVIDENCE=1; e2e/attacks/README.md)
	$(ATTACK) $(if $(AGAINST),--against $(AGAINST)) $(if $(EVIDENCE),--evidence) $(ATTACKS)

.PHONY: test-attacks
test-attacks: python rust ## A quarter of the attacks that need no cluster, by SEED; test-e2e has a quarter of the others
	$(ATTACK) --quarter processes apiserver

# Two runs at a time, each on an API server of its own.
.PHONY: faults
faults: python ## The operator with a fault at every request and watch event: build/bench/faults.json (root; SEED, COUNT, SECONDS; PLAN='…' runs one again; docs/how-to/break-the-operator.md)
	$(FAULTS) run $(if $(SEED),--seed $(SEED)) $(if $(COUNT),--count $(COUNT)) $(if $(SECONDS),--seconds $(SECONDS)) $(if $(PLAN),--plan '$(PLAN)') $(FAULTS_FLAGS)

.PHONY: faults-selfcheck
faults-selfcheck: python ## Seed defects in copies of the operator, each of which a run of the fault suite must find (root, 10 minutes)
	$(FAULTS) selfcheck $(FAULTS_FLAGS)

# As with faults.
.PHONY: fuzz-spec
fuzz-spec: python ## Odd values for every field of every kind, on a live system, and back: build/bench/fuzz.json (root; SEED, COUNT; TRANSITION='…' makes one again; docs/how-to/break-the-operator.md)
	$(FUZZ) run $(if $(SEED),--seed $(SEED)) $(if $(COUNT),--count $(COUNT)) $(if $(TRANSITION),--transition '$(TRANSITION)') $(FUZZ_FLAGS)

.PHONY: chaos
chaos: setup ## Transfers on the local cluster, disturbed in mid-flight: build/bench/chaos.json (300 rounds take hours; CHAOS_FLAGS='--rounds 30', --resume; docs/how-to/break-the-operator.md); KEEP=1
	$(USE_CLUSTER); trap '$(CLUSTER_DOWN)' EXIT; { \
	$(CLUSTER_CLI) up && $(CLUSTER_CLI) images && \
	$(VENV)/python -m e2e.chaos $(CHAOS_FLAGS); } {use}>&-

.PHONY: boards
boards: python ## Draw each Grafana board from the local cluster's Prometheus, or PROMETHEUS=URL, with Grafana's components: build/boards (BOARDS_FLAGS='--minutes 60')
	mkdir -p build/boards
	$(VENV)/python -m fairlead_dev.boards ask $(if $(PROMETHEUS),--prometheus $(PROMETHEUS),--local) $(BOARDS_FLAGS) > build/boards/answers.json
	$(VENV)/python -m fairlead_dev.boards draw build/boards/answers.json --install

.PHONY: repeat
repeat: python ## Tests again and again, and which failed how often: SUITE=e2e/test_fairness.py COUNT=20 LOOPS=2 (endless loops beside)
	$(VENV)/python -m fairlead_dev.repeat $(SUITE) --count $(or $(COUNT),20) --loops $(or $(LOOPS),0)

.PHONY: bench-allocation
bench-allocation: python ## Time the fair-share allocation: build/bench/allocation.json
	$(VENV)/python -m fairlead_dev.bench.allocation

.PHONY: bench-house
bench-house: python ## Count lines by room, and what the structure must keep: build/bench/house.json
	$(VENV)/python -m fairlead_dev.bench.house

.PHONY: bench-mover
bench-mover: python rust ## The mover beside iperf3, rclone, XRootD and GridFTP: build/bench/mover.json (35 minutes on 2 idle cores; BENCH_FLAGS=--help)
	$(VENV)/python -m fairlead_dev.bench.mover $(BENCH_FLAGS)

.PHONY: bench-guard
bench-guard: python rust ## What the node guard lets a mover send that does not obey, second by second: build/bench/guard.json (root, 3 minutes)
	$(VENV)/python -m fairlead_dev.bench.guard $(BENCH_FLAGS)

.PHONY: bench-fairness
bench-fairness: python rust ## Shares among 14 real movers, managed and left alone: build/bench/fairness.json (root, 7 minutes; BENCH_FLAGS=--help)
	$(VENV)/python -m fairlead_dev.bench.fairness $(BENCH_FLAGS)

.PHONY: bench-placement
bench-placement: python rust ## The choice of nodes and interfaces, and what several interfaces are worth: build/bench/placement.json (root; BENCH_FLAGS=--help)
	$(VENV)/python -m fairlead_dev.bench.placement $(BENCH_FLAGS)

.PHONY: bench-interfaces
bench-interfaces: setup ## Jobs over one and over both interfaces of their nodes, on the local cluster: build/bench/interfaces.json (root, idle, 20 minutes); KEEP=1
	$(USE_CLUSTER); trap '$(CLUSTER_DOWN)' EXIT; { \
	$(CLUSTER_CLI) up && $(CLUSTER_CLI) images && \
	$(VENV)/python -m fairlead_dev.bench.placement.jobs $(BENCH_FLAGS); } {use}>&-

# Failures of tests are figures of this bench and do not end it; a board that cannot be drawn does, after the figures are written.
.PHONY: bench-observe
bench-observe: $(if $(PROMETHEUS),python,setup) ## What can be watched, by the run of test-monitoring, or PROMETHEUS=URL that has seen one, and by test-why: build/bench/observe.json, and the boards drawn at the run's end: build/boards (root, 25 minutes)
	rm -rf build/bench/failures build/bench/monitoring.xml build/boards/*.png build/boards/run.json build/boards/end.json
	mkdir -p build/bench/failures build/boards
ifdef PROMETHEUS
	$(ASK_BOARDS) --over-time > build/boards/run.json
	$(ASK_BOARDS) > build/boards/end.json
else
	-FAIRLEAD_BOARD_ANSWERS=$(CURDIR)/build/boards $(MAKE) test-monitoring JUNIT=$(CURDIR)/build/bench/monitoring.xml
endif
	-FAIRLEAD_INDUCED_FAILURES=$(CURDIR)/build/bench/failures $(VENV)/pytest -q -n 2 operator/tests/apiserver/why
	$(VENV)/python -m fairlead_dev.bench.observe --answers build/boards/run.json --failures build/bench/failures $(if $(PROMETHEUS),,--tests build/bench/monitoring.xml)
	$(VENV)/python -m fairlead_dev.boards draw build/boards/end.json --install

.PHONY: fuzz
fuzz: ## Arbitrary bytes for every decoder of the mover, for SECONDS=60; guided by coverage where cargo-fuzz and a nightly compiler are
	@if cargo +nightly fuzz --version >/dev/null 2>&1; then \
		targets=$$(cd images/mover && cargo +nightly fuzz list); \
		each=$$(( $(or $(SECONDS),60) / $$(wc -w <<<"$$targets") + 1 )); \
		for target in $$targets; do (cd images/mover && cargo +nightly fuzz run "$$target" -- -max_total_time=$$each -print_final_stats=1); done; \
	else \
		FAIRLEAD_FUZZ_SECONDS=$(or $(SECONDS),60) hack/cargo test --locked -p fairlead-protocol --test fuzz -- --nocapture; \
	fi

DATASET ?= full
DATASET_FOLDER ?= $(CACHE)/datasets/$(DATASET)

.PHONY: dataset
dataset: python rust ## Record the labelled traces (root, an idle machine, hours; goes on where it was): DATASET=full|short|pilot|sealed|sealed-2|kernel-queue|kernel-queue-twin|fair-queue|fair-queue-2, DATASET_FLAGS='--minutes 60'
	# 1 tells of runs that stayed disturbed: the others are packed, and the card says what is missing.
	$(VENV)/python -m fairlead_dev.testbed dataset generate $(DATASET) --folder $(DATASET_FOLDER) $(DATASET_FLAGS) || test $$? -eq 1
	$(VENV)/python -m fairlead_dev.testbed dataset pack $(DATASET) --folder $(DATASET_FOLDER) --output build/dataset/$(DATASET)

CLASSIFIER_DATA ?= hack/wan/datasets/full
TRAINING_SETS ?= --data hack/wan/datasets/full --data hack/wan/datasets/short --whole-data hack/wan/datasets/sealed
CLASSIFIER_VERSION ?= 0.0.0
TRAINED := build/classifier

.PHONY: sealed
sealed: python ## The paths that are put aside for final figures, and who has opened them: hack/wan/sealed (drawn once, from a seed)
	$(VENV)/python -m fairlead_dev.testbed.sealed

.PHONY: train
train: python ## Train the background classifier, into build/classifier, on what the installed one was; `fairlead-advisor export` releases it; TRAINING_SETS='--data DIR'
	$(VENV)/fairlead-advisor train $(TRAINING_SETS) --output $(TRAINED) --version $(CLASSIFIER_VERSION) --jobs 2

.PHONY: bench-classifier
bench-classifier: python ## The classifier's whole table beside the paper's: build/bench/classifier.json; BENCH_FLAGS='--model build/classifier'; a second opinion with --other-emulator-data DIR --fair-queue-data DIR; of sealed recordings CLASSIFIER_DATA=build/dataset/sealed-2 BENCH_FLAGS="--reason '…'"
	$(VENV)/python -m fairlead_dev.bench.classifier --data $(CLASSIFIER_DATA) $(BENCH_FLAGS)

.PHONY: bench-active
bench-active: python ## What active probing adds to the classifier's passive look (5 minutes): build/bench/active.json
	$(VENV)/python -m fairlead_dev.bench.classifier.active --data $(CLASSIFIER_DATA) --bursts hack/wan/datasets/bursts $(BENCH_FLAGS)

.PHONY: bench-parallelism
bench-parallelism: python rust ## The advisor's stream count against fixed ones and Falcon's over emulated paths (root, 27 minutes): build/bench/parallelism.json
	$(VENV)/python -m fairlead_dev.bench.parallelism

.PHONY: bench-shares
bench-shares: python rust ## What the default job takes of a path, beside one flow and alone (root, idle, hours; BENCH_FLAGS=--help): build/bench/shares.json
	$(VENV)/python -m fairlead_dev.bench.shares $(BENCH_FLAGS)

.PHONY: bench-transports
bench-transports: python rust ## TCP, QUIC and UDT beside each other and beside iperf3, nuttcp, uftp, libudt and s2n-quic; a scavenger and uTP beside a normal flow (root, idle, 25 minutes; FULL=1 35; BENCH_FLAGS=--help): build/bench/transports.json
	$(VENV)/python -m fairlead_dev.bench.transports $(if $(FULL),--full) $(BENCH_FLAGS)

.PHONY: bench-engines
bench-engines: python rust ## What `protocol: Auto` is worth beside the best protocol of each path (root, idle, an hour; SEALED=engines REASON='…'; BENCH_FLAGS=--help): build/bench/engines.json
	$(VENV)/python -m fairlead_dev.bench.engines $(if $(SEALED),--sealed $(SEALED) --reason "$$REASON") $(BENCH_FLAGS)

.PHONY: bench-load
bench-load: programs ## One operator under load on a real API server, with simulated nodes and far movers (root, idle; BENCH_FLAGS='--jobs 2000 --live 2000'): build/bench/load.json
	$(VENV)/python operator/tests/apiserver/load_bench.py $(BENCH_FLAGS)

.PHONY: bench-decisions
bench-decisions: python rust ## Goodput, fairness and adaptation of the choice of congestion control (root, idle, 40 minutes; FULL=1 all development paths, twelve hours; SEALED=decisions REASON='…' sealed ones, fifteen hours): build/bench/decisions.json
	$(VENV)/python -m fairlead_dev.bench.decisions --data $(CLASSIFIER_DATA) $(if $(FULL),--full) $(if $(SEALED),--sealed $(SEALED) --reason "$$REASON") $(BENCH_FLAGS)

.PHONY: reload
reload: ## Put a change of the operator into the running local cluster: its new image, and a restart
	$(CLUSTER_CLI) images
	$(CLUSTER_CLI) kubectl -n fairlead-system rollout restart deployment -l app.kubernetes.io/component=operator
	$(CLUSTER_CLI) kubectl -n fairlead-system rollout status deployment -l app.kubernetes.io/component=operator --timeout=60s

.PHONY: images
images: packages rust ## Build the images and load them into a running local cluster
	$(CLUSTER_CLI) images

.PHONY: cluster-up
cluster-up: setup ## Start the local cluster: a control plane, mgmt, dtn-a and dtn-b, and the WAN between them
	$(CLUSTER_CLI) up

.PHONY: cluster-down
cluster-down: ## Stop the local cluster and leave nothing behind
	$(CLUSTER_CLI) down

CARGO_DENY := $(CACHE)/tools/cargo-deny-0.20.2

# Compiled once, in ten minutes on two cores, and kept outside the checkout.
$(CARGO_DENY)/bin/cargo-deny:
	@echo 'audit: compiling cargo-deny (some 10 minutes the first time)'
	CARGO_TARGET_DIR=$(CARGO_DENY)/target cargo install --quiet --locked --root $(CARGO_DENY) cargo-deny@0.20.2
	rm -rf $(CARGO_DENY)/target

.PHONY: audit
audit: python $(CARGO_DENY)/bin/cargo-deny ## Licences, bans and sources of crates, and known flaws of all that is locked (network; AUDIT_FLAGS=--offline)
	PATH="$(CARGO_DENY)/bin:$$PATH" $(VENV)/python -m fairlead_dev.audit $(AUDIT_FLAGS)

.PHONY: sbom
sbom: packages python rust ## A CycloneDX bill of materials for each image, checked against the locks: build/sbom
	$(VENV)/python -m fairlead_dev.sbom $(SBOM_FLAGS)

.PHONY: krew
krew: python ## `kubectl fairlead` for krew: packages for linux/amd64 and linux/arm64, and the manifest that says they are at URL, in build/krew
	@[ -n "$(URL)" ] || { echo 'krew: say where the packages will be: make krew URL=https://…'; exit 2; }
	$(CLUSTER_CLI) build --only krew,validate-krew-manifest
	$(VENV)/python -m fairlead_dev.krew --url '$(URL)'

.PHONY: pin-bases
pin-bases: ## Write the digests of the Dockerfile's base images into it (network, skopeo)
	hack/cluster/pin-bases Dockerfile

.PHONY: lock
lock: python ## Resolve the Python locks again
	hack/python/lock

.PHONY: format
format: python ## Format Python and Rust
	$(VENV)/ruff format .
	$(VENV)/ruff check --fix .
	cargo fmt --all
