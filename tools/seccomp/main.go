// Seccomp writes the filters of system calls that lib/sandbox embeds, one for
// each architecture and variant:
//
//	amd64.bpf               neither may start a process nor have sockets by path
//	amd64-process.bpf       may start processes
//	amd64-unix.bpf          may have sockets by path
//	amd64-process-unix.bpf  may do both
//
// and the same for arm64. A file is an array of struct sock_filter, as bwrap's
// --seccomp and seccomp(2) take it. The policy is policy.go.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: seccomp DIR")
		os.Exit(64)
	}
	files, err := filters()
	if err != nil {
		fmt.Fprintln(os.Stderr, "seccomp:", err)
		os.Exit(1)
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(os.Args[1], name), content, 0o644); err != nil {
			fmt.Fprintln(os.Stderr, "seccomp:", err)
			os.Exit(1)
		}
	}
}

// filters returns every file by its name.
func filters() (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, m := range machines {
		for _, v := range variants {
			f, err := assemble(m, v)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", fileName(m, v), err)
			}
			files[fileName(m, v)] = f
		}
	}
	return files, nil
}

var variants = []variant{{}, {process: true}, {unix: true}, {process: true, unix: true}}

func fileName(m machine, v variant) string {
	name := m.goarch
	if v.process {
		name += "-process"
	}
	if v.unix {
		name += "-unix"
	}
	return name + ".bpf"
}
