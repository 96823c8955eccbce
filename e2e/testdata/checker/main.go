// Checker is what a call does about a schema, and nothing else: it reads one,
// makes it ready and checks a value. With a third file, a lowered document, it
// takes that instead of lowering.
//
//	checker schema.json value.json [lowered.json]
package main

import (
	"fmt"
	"os"

	"forge/lib/schema"
	"forge/lib/wire"
)

func main() {
	if err := check(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func check(paths []string) error {
	var vs []wire.Value
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		v, err := wire.Parse(b, wire.File)
		if err != nil {
			return err
		}
		vs = append(vs, v)
	}
	if len(vs) < 3 {
		lowered, err := schema.Lower(vs[0])
		if err != nil {
			return err
		}
		vs = append(vs, lowered)
	}
	s, err := schema.Compile(vs[0], vs[2])
	if err != nil {
		return err
	}
	return s.Check(vs[1])
}
