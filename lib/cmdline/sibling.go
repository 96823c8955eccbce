package cmdline

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"forge/lib/fail"
)

// Sibling returns the path of another command of Forge: it stands beside the
// running binary, and is never looked for on PATH. Errors: internal.
func Sibling(name string) (string, error) {
	dir, err := SiblingDir()
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, name)
	if unix.Access(path, unix.X_OK) != nil {
		return "", fail.New(fail.Internal, "install all commands of Forge in one directory", "%s is missing", path).With("missing", name)
	}
	return path, nil
}

// SiblingDir is the directory of the running binary, links resolved.
func SiblingDir() (string, error) {
	self, err := os.Executable()
	if err == nil {
		self, err = filepath.EvalSymlinks(self)
	}
	if err != nil {
		return "", fail.New(fail.Internal, "", "find the running binary: %w", err)
	}
	return filepath.Dir(self), nil
}
