package sandbox

import (
	"os"

	"forge/lib/fail"
)

// The filters of system calls are files that tools/seccomp writes from its
// policy; its policy.go has the reasons. Bwrap loads them into its init and
// into the tool, as the last thing before either goes on.

// filterName returns the file for s. A socket that is named by a path could be
// of a listener outside wherever a path of the host is bound, and a read-only
// bind does not stop it: so there are none then.
func (s *Spec) filterName() string {
	name := "filters/" + filterArch
	if s.Process {
		name += "-process"
	}
	if len(s.Binds)+len(s.Extra) == 0 {
		name += "-unix"
	}
	return name + ".bpf"
}

// filter returns the read end of a pipe that holds the filter for s: at most a
// page, which every pipe takes.
func (s *Spec) filter() (*os.File, error) {
	text, err := filterFiles.ReadFile(s.filterName())
	if err != nil {
		return nil, fail.New(fail.SandboxUnavailable, "Forge runs tools on amd64 and arm64", "sandbox: no filter of system calls for this architecture")
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, internal("filter pipe", err)
	}
	_, err = w.Write(text)
	if cerr := w.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		r.Close()
		return nil, internal("filter pipe", err)
	}
	return r, nil
}
