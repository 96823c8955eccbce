package sandbox

import (
	"bytes"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

// BenchmarkStart is row S04: Run against bare bwrap, started by the same
// process with the same mounts, limits not counted, with the filter of system
// calls and without, taking turns. It reports the median of each side, and the
// ratios of Run to bwrap without a filter (which is to be 1.10 at most) and of
// bwrap with one to bwrap without.
func BenchmarkStart(b *testing.B) {
	for _, c := range []struct{ name, language, script string }{
		{"true", "bash", ":"},
		{"python", "python", "pass"},
		{"node", "node", ""},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := spec(c.language, c.script)
			impl := b.TempDir() + "/tool"
			if err := os.WriteFile(impl, s.Impl, 0o644); err != nil {
				b.Fatal(err)
			}
			bare, filtered := bareOptions(b, s, impl, false), bareOptions(b, s, impl, true)
			bwrap := func(options []string) {
				cmd := exec.Command(bwrapPath, options...)
				var out, errs bytes.Buffer
				cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(""), &out, &errs
				if slices.Contains(options, "--seccomp") {
					f, err := s.filter()
					if err != nil {
						b.Fatal(err)
					}
					defer f.Close()
					cmd.ExtraFiles = []*os.File{f}
				}
				if err := cmd.Run(); err != nil {
					b.Fatal(err, errs.String())
				}
			}
			sides := []func(){
				func() {
					if r, err := Run(b.Context(), s); err != nil || r.Exit != 0 {
						b.Fatal(r, err)
					}
				},
				func() { bwrap(bare) },
				func() { bwrap(filtered) },
			}
			took := make([][]time.Duration, len(sides))
			first := 0
			for b.Loop() {
				for i := range sides {
					i = (i + first) % len(sides) // nobody is always the one after node
					began := time.Now()
					sides[i]()
					took[i] = append(took[i], time.Since(began))
				}
				first++
			}
			var median [3]float64
			for i, t := range took {
				slices.Sort(t)
				median[i] = float64(t[len(t)/2].Microseconds())
			}
			b.ReportMetric(median[0], "µs/run")
			b.ReportMetric(median[1], "µs/bwrap")
			b.ReportMetric(median[2], "µs/bwrap+filter")
			b.ReportMetric(median[0]/median[1], "ratio")
			b.ReportMetric(median[2]/median[1], "filter-ratio")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// bareOptions is what Run tells bwrap, as a person would type it, with the
// filter on descriptor 3 or without.
func bareOptions(b *testing.B, s Spec, impl string, filter bool) []string {
	raw, err := options(s, 0, 0, 3, nil)
	if err != nil {
		b.Fatal(err)
	}
	words := strings.Split(strings.TrimSuffix(string(raw), "\x00"), "\x00")
	words = words[2:] // --json-status-fd
	if i := slices.Index(words, "--seccomp"); !filter {
		words = slices.Delete(words, i, i+2)
	}
	i := slices.Index(words, "--file")
	words = slices.Replace(words, i-2, i+3, "--ro-bind", impl, "/tool/"+s.File)
	return append(append(words, "--"), append(slices.Clone(s.Argv), "/tool/"+s.File)...)
}
