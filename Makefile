.DEFAULT_GOAL := help
STACK ?= local
PULUMI := bin/pulumi
STEPS := stack select --create $(STACK)

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: up
up: setup toolchain ## bring the lab up on this machine, load-test it without and with its cluster, print the table
	@scripts/up.sh $(STACK)
	@echo
	@echo 'More: bin/pulumi stack output · make preview · make table · make down · eval "$$(make -s env)" for pulumi itself'

.PHONY: preview
preview: toolchain ## show what up would change
	@$(PULUMI) $(STEPS)
	@$(PULUMI) preview --diff --stack $(STACK)

.PHONY: down
down: toolchain ## take the lab down; the ledger stays
	@$(PULUMI) destroy --yes --skip-preview --stack $(STACK)

.PHONY: table
table: ## print every row measured
	@.toolchain/bin/lab table results/$(STACK).jsonl

.PHONY: test
test: setup-test toolchain lint ## every test, the real machines among them
	scripts/test.sh

.PHONY: walls
walls: setup-test toolchain ## build twelve known walls on real machines and clusters, see that each is named (two hours)
	go test -tags walls -run '^TestWalls$$' -timeout 3h -v ./e2e

.PHONY: bench
bench: setup-bench ## compare the built-in load generator with others, say whether it keeps its bars (10 minutes)
	@go -C tools/bench build -o '$(CURDIR)/.toolchain/bin/bench' .
	@.toolchain/bin/bench $(BENCH)

.PHONY: lint
lint: ## gofmt, go mod tidy, go vet, staticcheck, shellcheck
	scripts/lint.sh

.PHONY: env
env: ## print the line that puts this lab's pulumi on PATH, for eval
	@printf 'export PATH="%s/bin:%s/.toolchain/bin:$$PATH"\n' '$(CURDIR)' '$(CURDIR)'

.PHONY: toolchain
toolchain: ## pulumi and its plugins: from PATH, downloaded, or built
	@scripts/toolchain.sh

.PHONY: setup
setup: ## the packages that a lab on this machine needs and lacks
	@scripts/setup.sh

.PHONY: setup-test
setup-test:
	@scripts/setup.sh test

.PHONY: setup-bench
setup-bench:
	@scripts/setup.sh bench
