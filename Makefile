.DEFAULT_GOAL := help
STACK ?= local
PULUMI := bin/pulumi
STEPS := stack select --create $(STACK)

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: up
up: setup toolchain ## bring the lab up on this machine, load-test it, print the table
	@$(PULUMI) $(STEPS)
	@$(PULUMI) up --yes --skip-preview --stack $(STACK)
	@echo
	@.toolchain/bin/lab table results/$(STACK).jsonl
	@echo
	@echo 'More: export PATH="$$PWD/bin:$$PATH", then pulumi stack output result, pulumi preview, pulumi up, pulumi destroy.'

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
test: setup toolchain lint ## every test, the real machines among them
	scripts/test.sh

.PHONY: lint
lint: ## gofmt, go vet, shellcheck
	scripts/lint.sh

.PHONY: toolchain
toolchain: ## pulumi and its plugins: from PATH, downloaded, or built
	@scripts/toolchain.sh

.PHONY: setup
setup: ## the packages this machine lacks
	@scripts/setup.sh
