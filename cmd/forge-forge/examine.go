package main

import (
	"context"
	"fmt"
	"os"

	"forge/lib/fail"
	"forge/lib/lint"
	"forge/lib/registry"
	"forge/lib/store"
	"forge/lib/tool"
)

// examine runs every check of DESIGN §7, Forge, in its order, and leaves the
// tool with its capabilities and digest.
func (f *forging) examine(ctx context.Context, r *request) error {
	name, err := tool.ParseName(r.Name)
	if err != nil {
		return err
	}
	f.record.Tool = string(name)
	if !r.save { // me. is nobody's namespace
		if err := f.policy.Namespace(f.Persona, name); err != nil {
			return err
		}
	}
	if word := name.Reserved(r.save); word != "" {
		return fail.New(fail.NameInvalid, "choose another name", "name %q: %s is reserved", name, word)
	}
	if err := f.policy.Forbidden(name); err != nil {
		return err
	}
	if f.tool, err = tool.New(r.Request); err != nil {
		return err
	}
	if err := f.capabilities(); err != nil {
		return err
	}
	if n := len(f.tool.Encode()); n > tool.MaxFile {
		return fail.New(fail.BadInput, "leave data out of the definition; control characters take six bytes each",
			"the definition takes %d bytes, at most %d", n, tool.MaxFile)
	}
	f.record.Digest = f.tool.Digest
	if err := lint.Check(ctx, f.tool); err != nil {
		return err
	}
	if err := tool.CheckDescription(f.tool.Description); err != nil {
		return err
	}
	f.ledger.CreatedBy = registry.CreatedBy{Persona: f.Persona, Session: f.Session, UID: int64(os.Getuid())}
	return nil
}

// capabilities lowers the schema, and derives the capabilities from it or holds
// it to those that were declared. Network is never derived: there is none yet,
// and a tool that has the capability is not run without.
func (f *forging) capabilities() error {
	sch, err := f.lower()
	if err != nil {
		return err
	}
	ro, rw := sch.Modes()
	t := f.tool
	if t.Meta.Capabilities == nil {
		t.Meta.Capabilities = []string{}
		for _, c := range []struct {
			name string
			has  bool
		}{
			{"process", t.Runtime == "bash"},
			{"read", ro},
			{"write", rw},
		} {
			if c.has {
				t.Meta.Capabilities = append(t.Meta.Capabilities, c.name)
			}
		}
		return nil
	}
	for _, c := range []struct {
		capability, mode string
		bound            bool
	}{{"read", "ro", ro}, {"write", "rw", rw}} {
		if c.bound && !t.Has(c.capability) {
			return fail.New(fail.BadInput, fmt.Sprintf("add %q to meta.capabilities", c.capability),
				"input_schema binds a path %s, and meta.capabilities has no %q", c.mode, c.capability)
		}
	}
	return nil
}

// placeOf returns where the request goes: the scope it names, else the
// narrowest. A project that is yet to be is made only when all checks passed.
func (f *forging) placeOf(r *request) (store.Place, error) {
	scope := store.Scope(r.Scope)
	if scope == "" {
		scope = f.DefaultScope()
	}
	p, err := f.Registry.Place(scope)
	if fail.KindOf(err) == fail.NotFound && scope == store.Project {
		p, err = f.ProjectToBe()
		f.toBe = err == nil
	}
	return p, err
}
