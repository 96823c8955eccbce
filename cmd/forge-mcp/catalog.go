package main

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/urfave/cli/v3"

	"forge/lib/cmdline"
	"forge/lib/mcp"
	"forge/lib/registry"
	"forge/lib/schema"
	"forge/lib/store"
	"forge/lib/tool"
	"forge/lib/wire"
)

// A catalog is what the server offers. Of the forged tools it keeps what the
// list shows, and reads again only what has changed on the disk.
type catalog struct {
	c        *cli.Command
	dir      string // of the siblings
	log      *mcp.Log
	toolsets []string

	static []mcp.Tool
	seen   []place // narrowest scope first
	ledger stamp
	last   *mcp.List
	said   string // the last complaint about the store
}

// A place is the tools of one scope as they were read.
type place struct {
	store.Place
	stamp stamp
	files map[string]file // by wire name
	bad   []string        // of these, the ones that hold no tool
}

// A file is one tool's, with what tells whether it, or the record of its
// definition, has changed since.
type file struct {
	own, ledger stamp
	digest      string
	tool        mcp.Tool
	bad         string // why it holds no tool, "" if it does
}

// A stamp tells two states of a file or directory apart.
type stamp struct {
	dev, ino, size uint64
	mtime, ctime   syscall.Timespec
	settled        bool // it was no longer changing when it was looked at
}

// young is how old a change must be before another one gives another time:
// kernels before 6.13 stamp by the tick.
const young = 20 * time.Millisecond

// look returns the stamp of path, the zero one if there is nothing.
func look(path string) stamp {
	var st syscall.Stat_t
	if err := syscall.Lstat(path, &st); err != nil {
		return stamp{settled: true}
	}
	last := max(st.Mtim.Nano(), st.Ctim.Nano())
	return stamp{uint64(st.Dev), st.Ino, uint64(st.Size), st.Mtim, st.Ctim, time.Now().UnixNano()-last > int64(young)}
}

// same says whether what had stamp s is surely what has stamp now.
func (s stamp) same(now stamp) bool {
	if !s.settled {
		return false
	}
	now.settled = true
	return s == now
}

func (k *catalog) warn(format string, args ...any) {
	k.log.Printf("forge-mcp: warning: %s", cmdline.Printable(fmt.Sprintf(format, args...)))
}

// list returns the tools as they are now.
func (k *catalog) list() *mcp.List {
	var asked sync.WaitGroup
	first := k.last == nil
	if first {
		asked.Go(func() { k.static = offered(k.dir, k.toolsets, k.warn) })
	}
	changed := slices.Contains(k.toolsets, toolsetForge) && k.read()
	asked.Wait()
	if first && len(k.static) == 0 {
		k.warn("no command in %s offers anything to toolset %s", k.dir, strings.Join(k.toolsets, ", "))
	}
	if first || changed {
		k.last = mcp.NewList(k.static, k.forged())
	}
	return k.last
}

// read brings k up to date with the store and says whether anything changed.
// Scopes are found anew each time: a project's may have been made meanwhile.
func (k *catalog) read() bool {
	caller, err := cmdline.Open(k.c)
	if err != nil {
		changed := k.seen != nil
		k.seen = nil
		if err.Error() != k.said {
			k.said = err.Error()
			k.warn("%s", err)
		}
		return changed
	}
	k.said = ""
	ledger := look(caller.Store.LedgerDir())
	changed := len(k.seen) != len(caller.Registry.Places)
	ledgerChanged := !k.ledger.same(ledger)
	k.ledger = ledger
	seen := make([]place, len(caller.Registry.Places))
	for i, p := range caller.Registry.Places {
		seen[i] = place{Place: p}
		if j := slices.IndexFunc(k.seen, func(q place) bool { return q.Place == p }); j >= 0 {
			seen[i] = k.seen[j]
			changed = changed || i != j
		}
		now := look(p.Tools())
		if ledgerChanged || !seen[i].stamp.same(now) {
			changed = true
			seen[i].stamp = now
			k.readPlace(caller, &seen[i])
			continue
		}
		for _, name := range seen[i].bad { // mended in place, that shows nowhere else
			if f := k.readFile(caller, seen[i], name); f.bad != seen[i].files[name].bad {
				changed = true
				k.readPlace(caller, &seen[i])
				break
			}
		}
	}
	k.seen = seen
	return changed
}

// readPlace brings the files of p up to date, several at a time.
func (k *catalog) readPlace(caller *cmdline.Caller, p *place) {
	names, err := registry.Names(p.Place)
	if err != nil {
		k.warn("%s", err)
	}
	files := make([]file, len(names))
	var next atomic.Int64
	var all sync.WaitGroup
	for range min(len(names), runtime.NumCPU()) {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(names); i = int(next.Add(1)) - 1 {
				files[i] = k.readFile(caller, *p, names[i])
			}
		})
	}
	all.Wait()
	before := p.files
	p.files, p.bad = make(map[string]file, len(names)), nil
	for i, name := range names {
		if files[i].digest == "" && files[i].bad == "" {
			continue
		}
		p.files[name] = files[i]
		if why := files[i].bad; why != "" {
			p.bad = append(p.bad, name)
			if why != before[name].bad {
				k.warn("%s", why)
			}
		}
	}
}

// readFile returns the file of a name as it is now: the one that p has, if
// nothing of it changed; the zero file if there is none.
func (k *catalog) readFile(caller *cmdline.Caller, p place, name string) file {
	f, own := p.files[name], look(p.Tool(name))
	if f.bad == "" && f.own.same(own) && f.ledger.same(look(caller.Store.Ledger(f.digest))) {
		return f
	}
	e, err := caller.Registry.Read(p.Place, name)
	if errors.Is(err, fs.ErrNotExist) {
		return file{} // gone since the directory was read
	}
	if err != nil {
		return file{bad: err.Error()}
	}
	f = file{
		own: own, ledger: look(caller.Store.Ledger(e.Tool.Digest)), digest: e.Tool.Digest,
		tool: mcp.Tool{Name: name, Dotted: string(e.Tool.Name), Argv: []string{filepath.Join(k.dir, callCommand), name}},
	}
	if (f.ledger.ino != 0) != (e.Ledger != nil) {
		f.ledger.settled = false // it came or went meanwhile: look again
	}
	if e.Ledger != nil && e.Ledger.Listed {
		if shown, why := schema.Wire(e.Tool.InputSchema); why == "" {
			f.tool.Entry = mcp.Entry(name, string(e.Tool.Name), e.Tool.Description, shown, hints(e.Tool), wire.Value{})
		}
	}
	return f
}

// forged returns the tools that the visible scopes hold, the narrowest of each
// name. One that was never recorded is not shown, but can be called: the answer
// says what is wrong with it.
func (k *catalog) forged() []mcp.Tool {
	var tools []mcp.Tool
	taken := map[string]bool{}
	for _, p := range k.seen {
		for name, f := range p.files {
			if f.bad == "" && !taken[name] {
				tools = append(tools, f.tool)
				taken[name] = true
			}
		}
	}
	return tools
}

// hints are the annotations of a forged tool. They follow from what the sandbox
// enforces, never from the author's words.
func hints(t *tool.Tool) wire.Value {
	readOnly := !slices.ContainsFunc(t.Meta.Capabilities, func(c string) bool { return c != "read" })
	return wire.ObjectOf(
		wire.Member{Name: "readOnlyHint", Value: wire.BoolOf(readOnly)},
		wire.Member{Name: "destructiveHint", Value: wire.BoolOf(t.Has("write"))},
		wire.Member{Name: "idempotentHint", Value: wire.BoolOf(t.Meta.Deterministic && !t.Has("network"))},
		wire.Member{Name: "openWorldHint", Value: wire.BoolOf(t.Has("network"))},
	)
}
