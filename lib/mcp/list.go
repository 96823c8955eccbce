package mcp

import (
	"bytes"
	"encoding/base64"
	"slices"
	"strings"

	"forge/lib/wire"
)

// A Tool is what the server knows of one tool.
type Tool struct {
	Name    string   // on the wire
	Dotted  string   // the other name it is called by, "" if there is none
	Entry   []byte   // how tools/list shows it (Entry makes it); nil: callable, not shown
	Argv    []string // the command that runs it, an absolute path first
	Barrier bool     // it may change the list: what follows it waits for its end
}

// Entry renders the object that tools/list shows for a tool. Members that are
// null are left out.
func Entry(name, title, description string, inputSchema, annotations, meta wire.Value) []byte {
	members := []wire.Member{{Name: "name", Value: wire.StringOf(name)}}
	if title != "" {
		members = append(members, wire.Member{Name: "title", Value: wire.StringOf(title)})
	}
	members = append(members,
		wire.Member{Name: "description", Value: wire.StringOf(description)},
		wire.Member{Name: "inputSchema", Value: inputSchema})
	for _, m := range []wire.Member{{Name: "annotations", Value: annotations}, {Name: "_meta", Value: meta}} {
		if m.Value.Type() != wire.Null {
			members = append(members, m)
		}
	}
	return wire.ObjectOf(members...).Bytes()
}

// A List is the tools of one moment: those that are always there in their
// order, then the others by name. It is not changed once made.
type List struct {
	tools  []Tool
	static int // so many of tools come first whatever their names
	byName map[string]int
}

// NewList returns the list of static tools and forged ones; it sorts forged. Of
// two tools with one name the first is found and shown.
func NewList(static, forged []Tool) *List {
	slices.SortStableFunc(forged, func(a, b Tool) int { return strings.Compare(a.Name, b.Name) })
	l := &List{static: len(static), byName: make(map[string]int, len(static)+len(forged))}
	for _, t := range slices.Concat(static, forged) {
		if _, twice := l.byName[t.Name]; twice {
			if len(l.tools) < l.static {
				l.static--
			}
			continue
		}
		l.byName[t.Name] = len(l.tools)
		l.tools = append(l.tools, t)
	}
	for i, t := range l.tools {
		if _, taken := l.byName[t.Dotted]; t.Dotted != "" && !taken {
			l.byName[t.Dotted] = i
		}
	}
	return l
}

// find returns the tool of that wire or dotted name.
func (l *List) find(name string) (Tool, bool) {
	i, ok := l.byName[name]
	if !ok {
		return Tool{}, false
	}
	return l.tools[i], true
}

// same returns whether l and o look the same to a client.
func (l *List) same(o *List) bool {
	a, b := l.tools, o.tools
	for {
		for len(a) > 0 && a[0].Entry == nil {
			a = a[1:]
		}
		for len(b) > 0 && b[0].Entry == nil {
			b = b[1:]
		}
		if len(a) == 0 || len(b) == 0 {
			return len(a) == len(b)
		}
		if !bytes.Equal(a[0].Entry, b[0].Entry) {
			return false
		}
		a, b = a[1:], b[1:]
	}
}

// near returns up to three names that name may have been meant for.
func (l *List) near(name string) []string {
	var names, found []string
	for _, t := range l.tools {
		names = append(names, t.Name)
	}
	for len(found) < 3 {
		n := wire.Nearest(strings.ReplaceAll(name, ".", "_"), names)
		if n == "" {
			break
		}
		found = append(found, n)
		names = slices.DeleteFunc(names, func(s string) bool { return s == n })
	}
	return found
}

const cursorPrefix = "forge.cursor/1 "

// page appends the result of tools/list from cursor on, at most size tools. A
// cursor holds the last name shown, so that what is added or removed between
// two pages makes no other tool appear twice or never; there is none after the
// last page. The second result is false if cursor is none of ours.
func (l *List) page(dst []byte, cursor string, size int) ([]byte, bool) {
	at := 0
	if cursor != "" {
		b, err := base64.RawURLEncoding.DecodeString(cursor)
		last, ok := strings.CutPrefix(string(b), cursorPrefix)
		if err != nil || !ok {
			return dst, false
		}
		i, here := l.byName[last]
		if here && i < l.static {
			at = i + 1
		} else {
			rest := l.tools[l.static:]
			i, here := slices.BinarySearchFunc(rest, last, func(t Tool, s string) int { return strings.Compare(t.Name, s) })
			if at = l.static + i; here {
				at++
			}
		}
	}
	dst = append(dst, `{"tools":[`...)
	n, last := 0, ""
	for ; at < len(l.tools); at++ {
		if l.tools[at].Entry == nil {
			continue
		}
		if n == size {
			dst = append(dst, `],"nextCursor":"`...)
			dst = append(dst, base64.RawURLEncoding.EncodeToString([]byte(cursorPrefix+last))...)
			return append(dst, `"}`...), true
		}
		if n > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, l.tools[at].Entry...)
		n, last = n+1, l.tools[at].Name
	}
	return append(dst, `]}`...), true
}
