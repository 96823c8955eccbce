# make demo    set up, build, run the main job and show it
# make test    set up, run every test; as root, again as an ordinary user
# make check   formatting, vet, staticcheck, shellcheck, man page lint
# make interop the MCP inspector from npm lists and calls a forged tool
# make bench   every figure as a ratio, both sides measured in turn
# make fuzz    every fuzz target for FUZZTIME each
# make differential  240,000 random pairs of schema and value, against another validator
# make filters write lib/sandbox/filters from the policy in tools/seccomp
# make suite   the official JSON Schema suite, from JSON_SCHEMA_SUITE
# make man     render the pages into man/out
# make install into PREFIX (and DESTDIR)

GO       ?= go
PREFIX   ?= /usr/local
FUZZTIME ?= 30s
TOOL      = $(GO) tool -modfile=tools/go.mod
PAGES     = $(patsubst man/%.scd,man/out/%,$(wildcard man/*.scd))

# Static binaries start faster, and run in any container.
export CGO_ENABLED = 0

.DELETE_ON_ERROR:
.PHONY: all build setup demo test check interop bench fuzz differential filters suite man install clean vuln

all: build

build:
	$(GO) build -trimpath -o bin/ ./cmd/...

setup:
	scripts/setup.sh run

demo: setup build
	scripts/demo.sh

test: build
	scripts/setup.sh test
	FORGE_BIN=$(CURDIR)/bin $(GO) test -count=1 -timeout 10m ./...
	cd tools/differential && $(GO) test -count=1 .
	@if [ "$$(id -u)" = 0 ]; then scripts/as-user.sh; else \
		echo "these lines of scripts want root and were passed over:"; git grep -nE '^\[root\]' -- '*.txtar'; fi

check:
	scripts/setup.sh test
	@bad=$$($(TOOL) gofumpt -l cmd lib e2e tools/differential tools/seccomp); [ -z "$$bad" ] || { echo "gofumpt would change:"; echo "$$bad"; exit 1; }
	$(GO) mod tidy -diff
	$(GO) vet ./...
	$(TOOL) staticcheck ./...
	cd tools/seccomp && $(GO) vet . && $(GO) test . # the filters are what the policy says
	cd tools/differential && $(GO) mod tidy -diff && $(GO) vet ./... && $(GO) tool -modfile=../go.mod staticcheck ./...
	shellcheck scripts/*.sh .ci/run tools/interop/*.sh completions/forge.bash
	$(MAKE) -s man

interop: build
	scripts/setup.sh interop
	tools/interop/run.sh $(CURDIR)/bin

bench: build
	scripts/setup.sh run
	FORGE_BIN=$(CURDIR)/bin $(GO) test -count=1 -timeout 60m -run '^TestBench' -tags bench -v ./e2e

fuzz:
	scripts/fuzz.sh $(FUZZTIME)

differential: # PAIRS and SEED may be set
	cd tools/differential && PAIRS=$${PAIRS:-240000} $(GO) test -count=1 -timeout 60m -v .

filters:
	cd tools/seccomp && $(GO) run . ../../lib/sandbox/filters

suite:
	$(GO) test -count=1 -tags suite -v -run Suite ./lib/schema

man: $(PAGES)
	mandoc -Tlint -W error $(PAGES)

man/out/%: man/%.scd
	@command -v scdoc mandoc >/dev/null || scripts/setup.sh test
	@mkdir -p man/out
	scdoc <$< >$@

install: build man
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/share/man/man1 $(DESTDIR)$(PREFIX)/share/man/man5 \
		$(DESTDIR)$(PREFIX)/share/man/man7 $(DESTDIR)$(PREFIX)/share/bash-completion/completions \
		$(DESTDIR)$(PREFIX)/share/zsh/site-functions $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d
	install -m 755 bin/* $(DESTDIR)$(PREFIX)/bin
	install -m 644 man/out/*.1 $(DESTDIR)$(PREFIX)/share/man/man1
	install -m 644 man/out/*.5 $(DESTDIR)$(PREFIX)/share/man/man5
	install -m 644 man/out/*.7 $(DESTDIR)$(PREFIX)/share/man/man7
	install -m 644 completions/forge.bash $(DESTDIR)$(PREFIX)/share/bash-completion/completions/forge
	install -m 644 completions/forge.fish $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/forge.fish
	install -m 644 completions/forge.zsh $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_forge
	cd bin && for command in forge-*; do \
		ln -sf forge $(DESTDIR)$(PREFIX)/share/bash-completion/completions/$$command; \
		ln -sf forge.fish $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/$$command.fish; done

clean:
	rm -rf bin man/out

vuln: # needs the network
	$(GO) run golang.org/x/vuln/cmd/govulncheck@latest ./...
