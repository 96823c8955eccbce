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
// process with the same options, limits not counted, taking turns. It reports
// the median of each side and their ratio.
func BenchmarkStart(b *testing.B) {
	for _, c := range []struct{ name, language, script string }{
		{"true", "bash", ":"},
		{"python", "python", "pass"},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := spec(c.language, c.script)
			impl := b.TempDir() + "/tool"
			if err := os.WriteFile(impl, s.Impl, 0o644); err != nil {
				b.Fatal(err)
			}
			bare := bareOptions(b, s, impl)
			var ours, theirs []time.Duration
			for b.Loop() {
				began := time.Now()
				if r, err := Run(b.Context(), s); err != nil || r.Exit != 0 {
					b.Fatal(r, err)
				}
				ours = append(ours, time.Since(began))

				began = time.Now()
				cmd := exec.Command(bwrapPath, bare...)
				var out, errs bytes.Buffer
				cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(""), &out, &errs
				if err := cmd.Run(); err != nil {
					b.Fatal(err, errs.String())
				}
				theirs = append(theirs, time.Since(began))
			}
			slices.Sort(ours)
			slices.Sort(theirs)
			run, bwrap := ours[len(ours)/2], theirs[len(theirs)/2]
			b.ReportMetric(float64(run.Microseconds()), "µs/run")
			b.ReportMetric(float64(bwrap.Microseconds()), "µs/bwrap")
			b.ReportMetric(float64(run)/float64(bwrap), "ratio")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// bareOptions is what Run tells bwrap, as a person would type it.
func bareOptions(b *testing.B, s Spec, impl string) []string {
	raw, err := options(s, 0, 0, 0, nil)
	if err != nil {
		b.Fatal(err)
	}
	words := strings.Split(strings.TrimSuffix(string(raw), "\x00"), "\x00")
	words = words[2:] // --json-status-fd
	i := slices.Index(words, "--file")
	words = slices.Replace(words, i-2, i+3, "--ro-bind", impl, "/tool/"+s.File)
	return append(append(words, "--"), append(slices.Clone(s.Argv), "/tool/"+s.File)...)
}
