package tool

import (
	"strings"

	"forge/lib/fail"
)

// Runtime is how the implementation of a tool is run inside the sandbox.
type Runtime struct {
	Name string
	Argv []string // interpreter and flags; the file's path follows
	File string   // base name of the implementation inside
	Lang string   // python, bash or node: which static check applies
}

// isPython holds name to python3 or python3.N, N of one or two digits.
func isPython(name string) bool {
	rest, ok := strings.CutPrefix(name, "python3")
	minor, dotted := strings.CutPrefix(rest, ".")
	if !ok || rest == "" {
		return ok
	}
	return dotted && len(minor) > 0 && len(minor) <= 2 && strings.Trim(minor, "0123456789") == ""
}

// RuntimeOf returns the runtime of that name; it says nothing of whether the
// interpreter is installed. PATH is not asked: interpreters are those under
// /usr/bin. Errors are of kind runtime_unavailable.
func RuntimeOf(name string) (Runtime, error) {
	switch {
	case isPython(name):
		// -I: no environment, no user site, no directory of the script on the
		// module path.
		return Runtime{name, []string{"/usr/bin/" + name, "-I"}, "tool.py", "python"}, nil
	case name == "bash":
		return Runtime{name, []string{"/usr/bin/bash", "--noprofile", "--norc"}, "tool.sh", "bash"}, nil
	case name == "node":
		return Runtime{name, []string{"/usr/bin/node"}, "tool.cjs", "node"}, nil
	}
	hint := "the runtimes are: python3, python3.N, bash, node"
	if near, ok := map[string]string{"python": "python3", "python2": "python3", "sh": "bash", "shell": "bash", "nodejs": "node", "javascript": "node", "js": "node"}[name]; ok {
		hint = "write " + near + "; " + hint
	}
	return Runtime{}, fail.New(fail.RuntimeUnavailable, hint, "runtime %q is not known", name)
}
