module forge/tools/seccomp

go 1.26.0

require (
	github.com/elastic/go-seccomp-bpf v1.6.0
	golang.org/x/net v0.41.0
)
