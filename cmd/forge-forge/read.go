package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

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
	Name        string     `json:"name"`
	Description string     `json:"description"`
	InputSchema wire.Value `json:"input_schema"`
	Impl        string     `json:"impl"`
	Runtime     string     `json:"runtime"`
	Meta        wire.Value `json:"meta"`
	Scope       string     `json:"scope"`
	Replace     bool       `json:"replace"`
	Check       bool       `json:"check"`

	save bool
}

func (r *request) definition() tool.Request {
	return tool.Request{Name: r.Name, Description: r.Description, InputSchema: r.InputSchema, Impl: r.Impl, Runtime: r.Runtime, Meta: r.Meta}
}

// read takes the request from standard input or from a directory.
func read(c *cli.Command) (*request, error) {
	r := &request{}
	if dir := c.Args().First(); dir != "" {
		d, err := readDirectory(dir)
		if err != nil {
			return nil, err
		}
		r.Name, r.Description, r.InputSchema = d.Name, d.Description, d.InputSchema
		r.Impl, r.Runtime, r.Meta = d.Impl, d.Runtime, d.Meta
	} else if err := cmdline.Request(c, r); err != nil {
		return nil, err
	}
	if c.IsSet("scope") {
		r.Scope = c.String("scope")
	}
	r.Replace = r.Replace || c.Bool("replace")
	if r.save = c.Bool("save"); r.save {
		r.Name, r.Scope = "me."+r.Name, string(store.User)
	}
	return r, nil
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
	// The text goes into JSON: what is not UTF-8 has no form there.
	v, err := wire.Of(string(impl))
	if err != nil || v.Text() != string(impl) {
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
		}
		return nil, fail.New(fail.NotFound, hint, "%s: no such file", path)
	}
	return b, err
}
