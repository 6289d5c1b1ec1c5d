# The targets that people and CI call. `make help` lists them.
SHELL := /bin/bash
GO    ?= go
BUF   := $(GO) tool -modfile=.tools/buf.mod buf
LINT  := $(GO) tool -modfile=.tools/lint.mod golangci-lint
BASE  ?= HEAD
DEPS  := .build/protodeps/.stamp
FLAGS ?=

.DEFAULT_GOAL := help

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 18

build: ## build bin/fleet
	$(GO) build -o bin/fleet ./cmd/fleet

run: build ## run a server on the default addresses and say what to do with it
	@docs/run.sh

demo: build ## the main job, from nothing, in under 30 s
	@docs/demo.sh

test: vet lint generated proto-lint race ## all that must hold before a change lands

vet:
	$(GO) vet ./...

lint: ## golangci-lint
	$(LINT) run

race: ## the tests, with the race detector, recordings replayed
	$(GO) test -race -timeout 15m $(FLAGS) ./...

generate: $(DEPS) ## write gen/ from proto/
	$(BUF) generate

generated: $(DEPS) # fails when gen/ is not what proto/ says
	@rm -rf .build/generated && mkdir -p .build/generated
	@$(BUF) generate -o .build/generated
	@diff -r gen .build/generated/gen || { echo "gen/ is stale: run \`make generate\` and commit it" >&2; exit 1; }

proto-lint: $(DEPS)
	$(BUF) lint
	$(BUF) format -d --exit-code proto

breaking: $(DEPS) ## is the API compatible with BASE (default HEAD)?
	@rm -rf .build/base && mkdir -p .build/base/.build
	git archive $(BASE) proto buf.yaml | tar -x -C .build/base
	@cp -r .build/protodeps .build/base/.build/
	$(BUF) breaking --against .build/base

$(DEPS): go.mod cmd/protodeps/main.go
	@rm -rf $(@D) && $(GO) run ./cmd/protodeps $(@D) && touch $@

fmt: ## format Go and proto files
	$(LINT) fmt
	$(BUF) format -w proto

bench: ## calls a second of each face beside bare peers, as ratios of one run
	$(GO) run ./internal/app/bench $(FLAGS)

conformance: ## the MCP conformance suite, the npm clients and the Inspector; downloads 340 MB
	TEST_CONFORMANCE=1 $(GO) test -count 1 -timeout 20m -run TestConformance -v ./internal/app/npm

test-claude: ## the real Claude Code, as an agent and as a client, against a stub of the model; downloads 360 MB
	TEST_CLAUDE=1 $(GO) test -count 1 -timeout 30m -run TestClaude -v ./internal/app/npm

fuzz: ## fuzz the decoding of arguments for 30 s
	$(GO) test -run '^$$' -fuzz FuzzUnmarshal -fuzztime 30s ./internal/face/wire

.PHONY: help build run demo test vet lint race generate generated proto-lint breaking fmt bench conformance test-claude fuzz
