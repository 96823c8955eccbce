package differential

import (
	"iter"
	"slices"

	"forge/lib/wire"
)

// shrink makes v smaller step by step while keep says that it still shows what
// it is to show.
func shrink(v wire.Value, keep func(wire.Value) bool) wire.Value {
	for {
		found := false
		for w := range smaller(v) {
			if found = keep(w); found {
				v = w
				break
			}
		}
		if !found {
			return v
		}
	}
}

// shrinkSchema is shrink, in the same dialect.
func shrinkSchema(author wire.Value, d dialect, keep func(wire.Value) bool) wire.Value {
	declared := func(v wire.Value) wire.Value {
		if v.Type() == wire.Object {
			return v.Set("$schema", wire.StringOf(d.uri()))
		}
		return v
	}
	if !keep(declared(author)) {
		return author
	}
	return declared(shrink(author, func(v wire.Value) bool { return keep(declared(v)) }))
}

// shrinkPair makes a schema and a value smaller on which the two differ.
func shrinkPair(author, v wire.Value, d dialect) (wire.Value, wire.Value) {
	differ := func(author, v wire.Value) bool {
		mine, err := ours(author)
		if err != nil {
			return false
		}
		other, err := theirs(author, d)
		if err != nil {
			return false
		}
		got := mine.Check(v)
		return undecided(got) == "" && (got == nil) != allows(other, v)
	}
	for {
		before := len(author.Bytes()) + len(v.Bytes())
		author = shrinkSchema(author, d, func(a wire.Value) bool { return differ(a, v) })
		v = shrink(v, func(v wire.Value) bool { return differ(author, v) })
		if len(author.Bytes())+len(v.Bytes()) >= before {
			return author, v
		}
	}
}

// smaller yields what v is with one part left out, or put in the place of the
// whole, anywhere in it.
func smaller(v wire.Value) iter.Seq[wire.Value] {
	return func(yield func(wire.Value) bool) {
		items, ms := v.Items(), v.Members()
		for i := range items {
			if !yield(items[i]) || !yield(wire.ArrayOf(slices.Delete(slices.Clone(items), i, i+1)...)) {
				return
			}
		}
		for i := range ms {
			if !yield(ms[i].Value) || !yield(wire.ObjectOf(slices.Delete(slices.Clone(ms), i, i+1)...)) {
				return
			}
		}
		for i := range items {
			for w := range smaller(items[i]) {
				out := slices.Clone(items)
				out[i] = w
				if !yield(wire.ArrayOf(out...)) {
					return
				}
			}
		}
		for i := range ms {
			for w := range smaller(ms[i].Value) {
				if !yield(v.Set(ms[i].Name, w)) {
					return
				}
			}
		}
	}
}
