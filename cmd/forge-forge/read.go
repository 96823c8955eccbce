package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/urfave/cli/v3"
	"golang.org/x/sys/unix"

	"forge/lib/cmdline"
	"forge/lib/fail"
	"forge/lib/store"
	"forge/lib/tool"
	"forge/lib/wire"
)

// request is a tool.Request with the flags that may stand in it; a flag on the
// command line wins.
type request struct {
	tool.Request
	Scope   string `json:"scope"`
	Replace bool   `json:"replace"`
	Check   bool   `json:"check"`

	save bool
}

// read takes the request from standard input or from a directory.
func read(c *cli.Command) (*request, error) {
	r := &request{}
	if c.Bool("request") && c.Args().Present() {
		return nil, cmdline.Usage(c, "--request takes no directory")
	}
	if dir := c.Args().First(); dir != "" {
		d, err := readDirectory(dir)
		if err != nil {
			return nil, err
		}
		r.Request = d
	} else if err := readRequest(c, r); err != nil {
		return nil, err
	}
	cmdline.Override(c, "scope", &r.Scope)
	r.Replace = r.Replace || c.Bool("replace")
	if r.save = c.Bool("save"); r.save {
		r.Name, r.Scope = "me."+r.Name, string(store.User)
	}
	return r, nil
}

// readRequest reads a request, or a tool file as another store has it.
func readRequest(c *cli.Command, r *request) error {
	v, err := cmdline.Read(c, wire.Request)
	if err != nil {
		return err
	}
	if _, isFile := v.Get("format"); isFile {
		t, err := tool.Parse(append(v.Bytes(), '\n'))
		if err != nil {
			return fail.New(fail.BadInput, "pass the tool file as it was written", "read standard input: %w", err)
		}
		r.Request = t.Request()
		return nil
	}
	if err := wire.Decode(v, r); err != nil {
		return fmt.Errorf("read standard input: %w", err)
	}
	var missing []string
	for _, name := range []string{"name", "description", "input_schema", "impl"} {
		if _, has := v.Get(name); !has {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return fail.New(fail.BadInput, "a request has name, description, input_schema and impl; runtime and meta may be left out",
			"read standard input: missing: %s", strings.Join(missing, ", "))
	}
	return nil
}

// readDirectory reads tool.toml and the files it stands beside.
func readDirectory(dir string) (tool.Request, error) {
	text, err := readFile(dir, "tool.toml", 1<<20)
	if err != nil {
		return tool.Request{}, err
	}
	m, err := tool.ParseManifest(text)
	if err != nil {
		return tool.Request{}, err
	}
	r := m.Request
	if !m.HasSchema {
		text, err := readFile(dir, "schema.json", 1<<20)
		if err != nil {
			return r, err
		}
		if r.InputSchema, err = wire.Parse(text, wire.Request); err != nil {
			e := fail.Of(err)
			return r, fail.New(fail.BadInput, e.Hint, "schema.json %w", err)
		}
	}
	impl, err := readFile(dir, m.ImplFile, 2<<20)
	if err != nil {
		return r, err
	}
	if !utf8.Valid(impl) { // the text goes into JSON
		return r, fail.New(fail.BadInput, "write UTF-8", "%s: not UTF-8 text", m.ImplFile)
	}
	r.Impl = string(impl)
	return r, nil
}

func readFile(dir, name string, limit int) ([]byte, error) {
	path := filepath.Join(dir, name)
	b, err := store.ReadFile(path, limit)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		hint := "a tool's directory holds tool.toml, the implementation, and schema.json or an inline input_schema"
		if fi, statErr := os.Stat(dir); statErr == nil && !fi.IsDir() {
			hint = "to forge from a file, type: forge-forge < " + dir
			if filepath.Base(dir) == "tool.toml" {
				hint = "name the directory: forge-forge " + filepath.Dir(dir)
			}
		}
		return nil, fail.New(fail.NotFound, hint, "%s: no such file", path)
	}
	return b, err
}
