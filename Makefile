# The targets that people and CI call. `make help` lists them.
SHELL := /bin/bash
GO    ?= go
BUF   := $(GO) tool -modfile=.tools/buf.mod buf
LINT  := $(GO) tool -modfile=.tools/lint.mod golangci-lint
# Packages that are built without the race detector. SQLite is C that was translated to Go, and its memory lies outside of Go's
# heap. The others only compute with the data of their callers; with the detector, they take a third of the time in which a
# program starts. A package that instantiates generic types of sync or sync/atomic must not be in this list: the linker keeps one
# copy of an instance for all packages, and that copy could be the one that hides accesses from the detector. sync.Pool is no
# problem, because it informs the detector itself.
UNWATCHED := modernc.org/sqlite/lib modernc.org/libc modernc.org/memory \
  regexp/... strconv compress/flate github.com/blevesearch/vellum/levenshtein \
  github.com/santhosh-tekuri/jsonschema/v6/... github.com/goccy/go-yaml/...
# encoding/json is built without the detector too, although it has a sync.Map for what it knows about types. Without inlining (-l)
# it calls sync and reflect, which the detector watches. Its copies of instances are then smaller than those of other packages,
# and the linker keeps the larger ones.
JSON := '-gcflags=encoding/json=-race=false -l'
# The build flags of lint and of the tests. They are the same, so a clean machine compiles the dependencies only once.
RACE  := -race $(UNWATCHED:%=-gcflags=%=-race=false) $(JSON)
BASE  ?= HEAD
DEPS  := .build/protodeps/.stamp
FLAGS ?=
BIN   ?= bin
# The version that the program reports: the tag, else the pseudo-version that Go would give to the commit.
VERSION ?= $(shell git describe --tags --dirty 2>/dev/null || TZ=UTC git log -1 --abbrev=12 --date=format-local:%Y%m%d%H%M%S --format=v0.0.0-%cd-%h 2>/dev/null)

.DEFAULT_GOAL := help

help: ## list the targets
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):.*## /\1\t/' | expand -t 18

build: ## build bin/fleet, and beside it the fleet-runner that supervises runs
	$(GO) build -ldflags '-X fleet/internal/app.version=$(VERSION)' -o $(BIN)/fleet ./cmd/fleet
	CGO_ENABLED=0 $(GO) build -ldflags '-X main.version=$(VERSION)' -o $(BIN)/fleet-runner-$$($(GO) env GOOS)-$$($(GO) env GOARCH) ./cmd/fleet-runner

fleet-runner: ## build bin/fleet-runner-linux-amd64 and -arm64, static, for workspaces
	@for arch in amd64 arm64; do \
	  CGO_ENABLED=0 GOOS=linux GOARCH=$$arch $(GO) build -trimpath -ldflags '-s -w -X main.version=$(VERSION)' -o bin/fleet-runner-linux-$$arch ./cmd/fleet-runner || exit 1; \
	done
	@cd bin && sha256sum fleet-runner-linux-*

release: ## build bin/release: archives for Linux and macOS, a bill of materials, checksums
	@VERSION=$(VERSION) .ci/release

run: build ## run a server on the default addresses and say what to do with it
	@docs/run.sh

demo: build bin/model-stub ## run two agents on a git repository, and one exchange of each other toolset; under 30 s
	@docs/demo.sh
	@docs/toolsets.sh

bin/model-stub: build # the stub of a model, so that no key is needed
	$(GO) build -o $@ ./internal/place/placetest/model/stub

# The checks need neither the compiler nor many processors, so they run in parallel with the rest. Their output comes at the end.
# Lint comes before the tests, so that a clean machine compiles the dependencies once.
test: ## run everything that must pass before a change lands
	@mkdir -p .build
	@$(MAKE) --no-print-directory checks >.build/checks 2>&1 & \
	  $(MAKE) --no-print-directory lint race; s=$$?; wait $$!; c=$$?; cat .build/checks; exit $$((s | c))

checks: generated proto-lint deploy-lint page-check

lint: ## golangci-lint, which vets too
	lint=$$($(GO) tool -n -modfile=.tools/lint.mod golangci-lint) && GOFLAGS="$$($(GO) env GOFLAGS) $(RACE)" "$$lint" run
	CGO_ENABLED=0 $(GO) build ./internal/app # a release for another architecture may have no C compiler

# Tests create and remove many small files. That is faster in memory, if the system has a gigabyte for files there. Test programs
# are large and stay on the disk.
MEM  := $(shell test -w /dev/shm && test "$$(df -k --output=avail /dev/shm | tail -n 1)" -gt 1000000 && echo TMPDIR=/dev/shm GOTMPDIR=$${GOTMPDIR:-$${TMPDIR:-/tmp}})

# Supervisors of runs and sandbox helpers start thousands of times in the tests, so tests use a fleet-runner without the detector
# for them. Only the tests of fleet-runner itself and of internal/runner run supervisors with the detector.
RUNNER := $(CURDIR)/.build/fleet-runner

# Scripts start commands hundreds of times, with a client without the detector. The tests of face/cli run commands with it.
CLIENT := $(CURDIR)/.build/client

# All tests of e2e need a Coder: lint compiles them, `make e2e` runs them. Slow packages come first.
PACKAGES = $$($(GO) list ./internal/app/... ./internal/toolset/... ./... | grep -v '/app/e2e$$')

# Most tests wait for other processes, so more tests than processors run at a time, but only one package: the tests of one keep two
# processors busy. Two at a time take longer than one after the other: internal/app 6 minutes alone and 20 beside another,
# model/run 2 and 7.
# GORACE turns two things off: the detector lets each program sleep for a second before it ends, and returns the shadow memory of
# each allocation above 32 kB to the system, which then has to provide it again. GOGC makes the linker and the servers of the tests
# collect garbage less often.
TEST = $(MEM) GORACE='atexit_sleep_ms=0 clear_shadow_mmap_threshold=16777216' GOGC=400 \
  $(GO) test $(RACE) -vet=off -ldflags="-s -w -X 'fleet/internal/runner/sandbox.programOverride=$(RUNNER)' -X 'fleet/internal/app/scripts.client=$(CLIENT)'" -p 1 -parallel 6 -timeout 80m

race: beside-tests ## the tests, with the race detector, recordings replayed
	$(TEST) $(FLAGS) $(PACKAGES)

# A program that has not changed keeps its modification time, and so does its directory: no target that `make test` runs adds files to
# .build or removes some. Otherwise Go would not use cached results of the tests that start the program.
beside-tests: # build the programs that tests start
	@mkdir -p .build/new
	CGO_ENABLED=0 $(GO) build -o .build/new/ ./cmd/fleet-runner ./internal/face/cli/client
	@for p in $(RUNNER) $(CLIENT); do cmp -s .build/new/$${p##*/} $$p || install .build/new/$${p##*/} $$p || exit 1; done

INSTALL = install() { sudo=; [ "$$(id -u)" = 0 ] || sudo=sudo; $$sudo apt-get update -q && $$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends "$$@"; }

test-postgres: beside-tests ## the suites of the store, the API and crashes over Postgres; installs Debian's packages if they are missing
	@$(INSTALL); ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || command -v initdb >/dev/null || install postgresql
	@$(INSTALL); [ -x /usr/sbin/pgbouncer ] || install pgbouncer || echo "PgBouncer cannot be installed: its test is skipped" >&2
	FLEET_TEST_POSTGRES=1 $(TEST) -count=1 $(FLAGS) ./internal/app ./internal/app/crash ./internal/app/chaos ./internal/app/bench ./internal/store/postgres/...

UPGRADES = $(filter-out %/00001_schema.sql,$(wildcard internal/store/*/migrations/*.sql))
upgrade-base test-upgrade: BASE = $(if $(UPGRADES),$(shell git log -1 --diff-filter=A --format=%h~ -- $(UPGRADES)),HEAD)
test-upgrade: ## test that the program of BASE (default: before the newest migration) works with a database that this or a later program has upgraded
	@rm -rf .build/old && mkdir -p .build/old
	git archive $(BASE) | tar -x -C .build/old
	cd .build/old && $(GO) build -o ../fleet-old ./cmd/fleet
	FLEET_TEST_POSTGRES=1 FLEET_TEST_OLD=$(CURDIR)/.build/fleet-old $(GO) test -count=1 -vet=off -run TestOldProgram $(FLAGS) ./internal/app

upgrade-base: # print the commit that test-upgrade builds
	@echo $(BASE)

generate: $(DEPS) ## write gen/ from proto/
	$(BUF) generate

generated: $(DEPS) # fails when gen/ is not what proto/ says
	@mkdir -p .build/generated && rm -rf .build/generated/gen
	@$(BUF) generate -o .build/generated
	@diff -r gen .build/generated/gen || { echo "gen/ is stale: run \`make generate\` and commit it" >&2; exit 1; }

proto-lint: $(DEPS)
	$(BUF) lint
	$(BUF) format -d --exit-code proto

DEPLOY := -modfile=.tools/deploy.mod
deploy-lint: # build the manifests for Kubernetes with Kustomize, and check them with kube-score; check the container file with BuildKit
	@$(GO) run -modfile=.tools/containerfile.mod ./.tools/containerfile docs/operate/deploy/Containerfile
	@mkdir -p .build && set -o pipefail && $(GO) tool $(DEPLOY) kustomize build docs/operate/deploy/kubernetes | $(GO) tool $(DEPLOY) kube-score score --output-format ci --exit-one-on-warning - docs/operate/deploy/kubernetes/migrate.yaml >.build/kube-score || { grep -v '^\[OK\]' .build/kube-score; exit 1; }

breaking: $(DEPS) ## check that the API is compatible with that of BASE (default HEAD)
	@rm -rf .build/base && mkdir -p .build/base/.build
	git archive $(BASE) proto buf.yaml | tar -x -C .build/base
	@cp -r .build/protodeps .build/base/.build/
	$(BUF) breaking --against .build/base

$(DEPS): go.mod cmd/protodeps/main.go
	@rm -rf $(@D) && $(GO) run ./cmd/protodeps $(@D) && touch $@

fmt: ## format Go and proto files
	$(LINT) fmt
	$(BUF) format -w proto

# The names of benchmarks are BENCHMARK/CASE/ROW, for example FLAGS='-bench List/clients=1/MCP -cpuprofile cpu.out'.
BENCH = $(GO) test ./internal/app/bench -run '^$$' -timeout 0 -ldflags "-X fleet/internal/runner/sandbox.programOverride=$(RUNNER)"

bench: beside-tests ## measure each face beside bare servers of its protocol, a large fleet, replicas, fairness and caches of tools; downloads 30 MB of npm packages the first time
	@mkdir -p .build/npm/bench && cp -r testdata/npm/bench/. .build/npm/bench
	@cd .build/npm/bench && cmp -s package-lock.json installed || { npm ci --loglevel=error && cp package-lock.json installed; } || echo "the TypeScript peer needs npm"
	$(BENCH) -bench 'List|Fleet|Queue|Replicas|Fairness|Caches' -benchtime 6s $(FLAGS)

bench-page: beside-tests ## measure the live page in Chromium: first load, 10,000 agents that change, a million lines, a conversation of 5,000 steps, a day of events
	$(BENCH) -bench Page -benchtime 8s $(FLAGS)

bench-large: beside-tests ## measure lists and searches with 100,000 agents and 1,000,000 tasks, on SQLite and on Postgres
	$(BENCH) -bench Store -benchtime 2s $(FLAGS)

conformance: ## run the MCP conformance suite, the npm clients and the Inspector; downloads 340 MB
	TEST_CONFORMANCE=1 $(GO) test -count 1 -timeout 20m -run TestConformance -v ./internal/app/npm

lint-openapi: ## check the OpenAPI document with redocly; downloads 15 MB
	TEST_OPENAPI=1 $(GO) test -count 1 -timeout 10m -run TestOpenAPI -v ./internal/app/npm

test-systemd: build fleet-runner ## install the server under a systemd in a container as docs/operate/deploy.md says, restart and kill it; needs root, installs Debian's package systemd-container if it is missing
	@$(INSTALL); command -v systemd-nspawn >/dev/null || install systemd systemd-container
	TEST_SYSTEMD=1 $(GO) test -count 1 -timeout 10m -run TestUnitUnderSystemd -v ./internal/app

test-webhooks: ## verify the signatures of webhooks with the npm library, and run the recipes of docs/use/webhooks.md; downloads 300 KB
	TEST_WEBHOOKS=1 $(GO) test -count 1 -timeout 20m -run TestWebhook -v ./internal/app/npm

test-claude: ## test the real Claude Code, as an agent and as a client, with a stub of its model; downloads 360 MB
	TEST_CLAUDE=1 $(GO) test -count 1 -timeout 30m -run TestClaude -v ./internal/app/npm

test-agents: ## test every real agent program that Fleet drives, with a stub of its model; downloads 2.3 GB
	TEST_AGENTS=1 TEST_CLAUDE=1 $(GO) test -count 1 -timeout 60m -run 'TestClaude|TestAgents' -v ./internal/app/npm

FUZZTIME ?= 30s
# Go minimizes each input that reaches new code, for up to a minute. That is worth at most 50 runs. A limit of time instead would
# restart the worker for each input, which takes longer than the fuzzing if the program is large.
fuzz: ## fuzz everything that reads data from outside, each function for FUZZTIME (default 30s)
	@grep -rEo '^func Fuzz\w+' --include='*_test.go' internal cmd | sed -E 's|/[^/]*:func | |' | sort | while read -r dir name; do \
	  echo "== $$name in $$dir" && $(GO) test -run '^$$' -fuzz "^$$name$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 50x ./$$dir || exit 1; \
	done

# The live page. Its build is committed, so only those who change it need Node 20.19 or newer.
PAGE := internal/face/page
NPM  := $(PAGE)/node_modules/.package-lock.json

page: $(NPM) ## build the live page from its sources
	cd $(PAGE) && npm run build

page-dev: $(NPM) ## serve the live page from its sources, and reload it when they change; FLEET=URL is the server, default http://127.0.0.1:8101
	cd $(PAGE) && npm run dev

page-pictures: $(NPM) ## make the pictures of the documents, and pictures of every room at 400, 1280 and 2560 px in .build/page
	FLEET_TEST_PICTURES=1 $(GO) test -count=1 -run 'TestRooms|TestPictures|TestTranscript|TestReview|TestFleetRows|TestTree|TestVariants|TestNarrow|TestEmptyRooms' ./internal/app/browser

page-check: # check formatting, lint and types of the page, if Node is installed
	@if node -e 'const [a, b] = process.versions.node.split("."); process.exit(a > 20 || a == 20 && b >= 19 ? 0 : 1)' 2>/dev/null; \
	  then $(MAKE) --no-print-directory $(NPM) || { echo "the page is not checked: npm cannot install its tools" >&2; exit 0; }; $(MAKE) --no-print-directory .build/page-checked; \
	  else echo "the page is not checked: install Node 20.19 or newer" >&2; fi

# The list includes directories, because adding or removing a file makes its directory newer than the stamp.
.build/page-checked: Makefile gen/openapi/openapi.json $(NPM) $(shell find $(PAGE) \( -name node_modules -o -name dist -o -path $(PAGE)/src/gen \) -prune -o \( -type d -o -type f \) ! -name '*.go' -print)
	cd $(PAGE) && npm run --silent check
	@mkdir -p $(@D) && touch $@

$(NPM): $(PAGE)/package-lock.json
	cd $(PAGE) && npm ci --no-fund --no-audit && touch node_modules/.package-lock.json

# A real Coder: testdata/coder-testbed. TESTBED_DIR, CODER_PORT and PG_PORT choose another one.
coder-up: ## start a real Coder on this machine; builds it the first time
	@testdata/coder-testbed/up.sh

coder-down: ## stop that Coder
	@testdata/coder-testbed/down.sh

CODER_ENV := env=$$(testdata/coder-testbed/env.sh bob) && eval "$$env"

e2e: ## test the whole contract, and the suite of places, with a real Coder: make coder-up e2e
	@$(CODER_ENV) && FLEET_E2E=1 FLEET_TEST_POSTGRES=1 $(GO) test -count=1 -p 1 -timeout 45m -parallel 6 $(FLAGS) ./internal/app/e2e ./internal/place/coder

record: ## record the cassettes in testdata/cassettes again, from that Coder: make coder-up record
	@$(CODER_ENV) && $(GO) test -count=1 -timeout 30m -run 'TestCassettes|TestRecorded' $(FLAGS) ./internal/place/coder ./internal/identity/coder -record

CHAOS ?= 60s
chaos: ## test mixed load through a proxy that delays, cuts and refuses connections, then with random kills, each for CHAOS (default 60s)
	@$(CODER_ENV) && FLEET_E2E=1 FLEET_CHAOS=$(CHAOS) $(GO) test -count=1 -timeout 60m -run TestChaos -v $(FLAGS) ./internal/app/e2e

# Without the race detector: TestChaosQueue measures times. `make test-postgres` runs these tests with it, with less of everything.
chaos-store: beside-tests ## test three servers on Postgres and one on SQLite while everything fails; CHAOS is a number of faults or a time (default 60s)
	FLEET_TEST_POSTGRES=1 CHAOS=$(CHAOS) $(GO) test -count=1 -vet=off -ldflags="-X fleet/internal/runner/sandbox.programOverride=$(RUNNER)" -timeout 12h -run TestChaos -v $(FLAGS) ./internal/app/chaos

SOAK ?= 3m
soak: ## run servers on SQLite and Postgres whose data expires within seconds, for SOAK (default 3m): memory, files and databases must stop growing
	$(MEM) FLEET_TEST_POSTGRES=1 SOAK=$(SOAK) $(GO) test -count=1 -vet=off -timeout 12h -run TestSoak -v $(FLAGS) ./internal/app/chaos

bench-coder: ## measure list_agents of 300 agents beside Coder's own lists
	@$(CODER_ENV) && FLEET_E2E=1 $(GO) test -run '^$$' -bench List $(FLAGS) ./internal/app/e2e

.PHONY: coder-up coder-down e2e record chaos chaos-store soak bench-coder
.PHONY: page page-pictures page-dev page-check
.PHONY: help build fleet-runner release run demo test checks deploy-lint test-postgres test-upgrade upgrade-base lint race beside-tests generate generated proto-lint breaking fmt bench bench-page bench-large conformance lint-openapi test-systemd test-webhooks test-claude test-agents fuzz
