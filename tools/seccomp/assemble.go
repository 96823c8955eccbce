package main

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/net/bpf"
)

// A machine is an architecture, little-endian and of 64 bits.
type machine struct {
	goarch string
	*arch.Info
}

var machines = []machine{{"amd64", arch.X86_64}, {"arm64", arch.AARCH64}}

// A ruling is what becomes of one call: checked, or a verdict without looking.
type ruling struct {
	verdict verdict
	lines   [][]test // nil, or what of it is allowed; the rest is refused
}

func (r ruling) equal(s ruling) bool {
	return r.verdict == s.verdict && r.lines == nil && s.lines == nil
}

// rulings returns the policy by number. A name that neither machine has, or that
// stands twice, is an error.
func rulings(m machine, v variant) (map[uint32]ruling, error) {
	byName := map[string]ruling{}
	add := func(name string, r ruling) error {
		if _, twice := byName[name]; twice {
			return fmt.Errorf("%s stands twice in the policy", name)
		}
		if !slices.ContainsFunc(machines, func(m machine) bool { _, has := m.SyscallNames[name]; return has }) {
			return fmt.Errorf("%s: no such system call", name)
		}
		byName[name] = r
		return nil
	}
	for _, g := range groups(v) {
		for _, name := range strings.Fields(g.calls) {
			if err := add(name, ruling{verdict: g.verdict}); err != nil {
				return nil, err
			}
		}
	}
	for _, c := range checks(v) {
		if err := add(c.call, ruling{verdict: refuse, lines: c.lines}); err != nil {
			return nil, err
		}
	}
	byNumber := map[uint32]ruling{}
	for name, nr := range m.SyscallNames {
		r, has := byName[name]
		if !has {
			return nil, fmt.Errorf("%s is not in the policy", name)
		}
		byNumber[uint32(nr)] = r
	}
	return byNumber, nil
}

// Offsets into struct seccomp_data.
const (
	offNumber = 0
	offArch   = 4
	offArgs   = 16 // eight bytes each, the low half first
)

// A span is the numbers from first up to the next span, all ruled alike.
type span struct {
	first uint32
	ruling
}

// assemble returns the filter: the architecture, then a search tree over the
// numbers, so that a call takes some ten steps and the kernel, which walks it
// for each number when it is loaded, takes few microseconds. The numbers of x32
// (amd64 with bit 30 set) lie beyond all others and are absent with them.
func assemble(m machine, v variant) ([]byte, error) {
	rules, err := rulings(m, v)
	if err != nil {
		return nil, err
	}
	var spans []span
	next := uint32(0)
	for _, nr := range append(slices.Sorted(maps.Keys(rules)), ^uint32(0)) {
		if next < nr { // a gap
			rules[next] = ruling{verdict: absent}
		}
		for _, n := range []uint32{next, nr} {
			r, has := rules[n]
			if has && (len(spans) == 0 || !spans[len(spans)-1].equal(r)) {
				spans = append(spans, span{n, r})
			}
		}
		next = nr + 1
	}
	code := []bpf.Instruction{
		bpf.LoadAbsolute{Off: offArch, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(m.ID), SkipTrue: 1},
		bpf.RetConstant{Val: uint32(kill)},
		bpf.LoadAbsolute{Off: offNumber, Size: 4},
	}
	code = append(code, tree(spans)...)
	raw, err := bpf.Assemble(code)
	if err != nil {
		return nil, err
	}
	var out []byte
	for _, r := range raw { // struct sock_filter
		out = binary.LittleEndian.AppendUint16(out, r.Op)
		out = append(out, r.Jt, r.Jf)
		out = binary.LittleEndian.AppendUint32(out, r.K)
	}
	return out, nil
}

// tree finds the span of the number in the accumulator.
func tree(spans []span) []bpf.Instruction {
	if len(spans) == 1 {
		return leaf(spans[0].ruling)
	}
	middle := len(spans) / 2
	below, above := tree(spans[:middle]), tree(spans[middle:])
	pivot := spans[middle].first
	var code []bpf.Instruction
	if len(below) <= 255 {
		code = append(code, bpf.JumpIf{Cond: bpf.JumpGreaterOrEqual, Val: pivot, SkipTrue: uint8(len(below))})
	} else {
		code = append(code, bpf.JumpIf{Cond: bpf.JumpGreaterOrEqual, Val: pivot, SkipFalse: 1}, bpf.Jump{Skip: uint32(len(below))})
	}
	return append(append(code, below...), above...)
}

// leaf rules on one call. It comes with the number in the accumulator and may
// load over it.
func leaf(r ruling) []bpf.Instruction {
	if r.lines == nil {
		return []bpf.Instruction{bpf.RetConstant{Val: uint32(r.verdict)}}
	}
	var code []bpf.Instruction
	for _, l := range r.lines {
		code = append(code, line(l)...)
	}
	return append(code, bpf.RetConstant{Val: uint32(r.verdict)})
}

// line allows if all its tests hold, and else falls through to what follows.
func line(tests []test) []bpf.Instruction {
	code := []bpf.Instruction{bpf.RetConstant{Val: uint32(allow)}}
	for _, t := range slices.Backward(tests) {
		fail := uint8(len(code)) // skips what follows the test, to the next line
		head := []bpf.Instruction{bpf.LoadAbsolute{Off: offArgs + 8*uint32(t.arg), Size: 4}}
		if t.mask != ^uint32(0) {
			head = append(head, bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: t.mask})
		}
		for i, v := range t.values {
			left := uint8(len(t.values) - 1 - i) // comparisons after this one
			j := bpf.JumpIf{Cond: bpf.JumpEqual, Val: v}
			if t.not {
				j.SkipTrue = left + fail
			} else {
				j.SkipTrue = left
				if left == 0 {
					j.SkipFalse = fail
				}
			}
			head = append(head, j)
		}
		code = append(head, code...)
	}
	return code
}
