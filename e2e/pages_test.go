package e2e

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"forge/e2e/script"
	"forge/lib/chain"
	"forge/lib/fail"
	"forge/lib/policy"
	"forge/lib/tool"
	"forge/lib/trail"
)

const pageDir = "../man"

// page is one manual page in scdoc.
type page struct {
	name string // forge-call.1
	text string
}

func readPages(t *testing.T) []page {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(pageDir, "*.scd"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no pages in %s: %v", pageDir, err)
	}
	var pages []page
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, page{strings.TrimSuffix(filepath.Base(f), ".scd"), string(b)})
	}
	return pages
}

func readPage(t *testing.T, name string) page {
	t.Helper()
	for _, p := range readPages(t) {
		if p.name == name {
			return p
		}
	}
	t.Fatalf("no page %s", name)
	return page{}
}

// section returns the text under a heading, without it; "" for none.
func (p page) section(name string) string {
	_, rest, _ := strings.Cut(p.text, "\n# "+name+"\n")
	if i := strings.Index(rest, "\n# "); i >= 0 {
		rest = rest[:i+1]
	}
	return rest
}

// literals returns the blocks of literal text as a reader sees them.
func (p page) literals() []string {
	var blocks []string
	var block *strings.Builder
	indent := ""
	for line := range strings.SplitSeq(p.text, "\n") {
		switch {
		case strings.TrimLeft(line, "\t") != "```":
			if block != nil {
				block.WriteString(strings.ReplaceAll(strings.TrimPrefix(line, indent), `\\`, `\`) + "\n")
			}
		case block == nil:
			block, indent = &strings.Builder{}, strings.TrimSuffix(line, "```")
		default:
			blocks, block = append(blocks, block.String()), nil
		}
	}
	return blocks
}

// literal returns the one block that has mark in it.
func (p page) literal(t *testing.T, mark string) string {
	t.Helper()
	for _, b := range p.literals() {
		if strings.Contains(b, mark) {
			return b
		}
	}
	t.Fatalf("%s: no literal text with %q", p.name, mark)
	return ""
}

// pageRun runs a program on text, and fails the test if it is missing.
func pageRun(t *testing.T, text string, argv ...string) (out string, err error) {
	t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdin = strings.NewReader(text)
	b, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatalf("%s: %v", argv[0], err)
	}
	return string(b), err
}

// commands lists the binaries by their directories under cmd/.
func pageCommands(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir("../cmd")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

var pageSections = map[string][]string{
	"1": {"NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "STANDARD INPUT", "EXIT STATUS", "FILES", "EXAMPLES", "SEE ALSO"},
	"5": {"NAME", "DESCRIPTION", "EXAMPLES", "SEE ALSO"},
	"7": {"NAME", "DESCRIPTION", "EXAMPLES", "SEE ALSO"},

	"forge.7": {"NAME", "DESCRIPTION", "STANDARD INPUT", "EXIT STATUS", "EXAMPLES", "SEE ALSO"},
}

// Each binary has a page, each page has the sections of its kind, in order, and
// what it refers to is there.
func TestPagesComplete(t *testing.T) {
	commands := pageCommands(t)
	for _, c := range commands {
		readPage(t, c+".1")
	}
	reference := regexp.MustCompile(`\*(forge[a-z-]*)\*\(([157])\)`)
	for _, p := range readPages(t) {
		name, kind, _ := strings.Cut(p.name, ".")
		if kind == "1" && !slices.Contains(commands, name) {
			t.Errorf("%s is of no command", p.name)
		}
		if want := name + "(" + kind + ") "; !strings.HasPrefix(p.text, want) {
			t.Errorf("%s does not begin with %q", p.name, want)
		}
		if want := "\n# NAME\n\n" + name + " - "; !strings.Contains(p.text, want) {
			t.Errorf("%s: NAME does not begin with %q", p.name, name+" - ")
		}
		at := 0
		sections := pageSections[kind]
		if own, has := pageSections[p.name]; has {
			sections = own
		}
		for _, s := range sections {
			i := strings.Index(p.text, "\n# "+s+"\n")
			if i < at {
				t.Errorf("%s: section %s is missing or out of order", p.name, s)
			}
			at = max(at, i)
		}
		for _, m := range reference.FindAllStringSubmatch(p.text, -1) {
			if _, err := os.Stat(filepath.Join(pageDir, m[1]+"."+m[2]+".scd")); err != nil {
				t.Errorf("%s refers to %s(%s), and there is no such page", p.name, m[1], m[2])
			}
		}
	}
}

// A comment that names a section of a page names one that is there.
func TestPagesSections(t *testing.T) {
	reference := regexp.MustCompile(`(forge[a-z-]*)\(([157])\), ([A-Z]+( [A-Z]+)*)\b`)
	found := 0
	for _, pattern := range []string{"../lib/*/*.go", "../cmd/*/*.go"} {
		files, _ := filepath.Glob(pattern)
		for _, f := range files {
			b, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range reference.FindAllStringSubmatch(strings.ReplaceAll(string(b), "\n//", ""), -1) {
				found++
				if readPage(t, m[1]+"."+m[2]).section(m[3]) == "" {
					t.Errorf("%s: %s(%s) has no section %s", f, m[1], m[2], m[3])
				}
			}
		}
	}
	if found == 0 {
		t.Error("no comment names a section")
	}
}

// A help is what --help says a command takes.
type help struct {
	flags, commands []string
}

var flagWord = regexp.MustCompile(`(?:^|[\s,\[*])(-{1,2}[a-z][a-z-]*)`)

func askHelp(t *testing.T, argv ...string) help {
	t.Helper()
	out, err := exec.Command(filepath.Join(script.Bin(t), argv[0]), append(argv[1:], "--help")...).Output()
	if err != nil {
		t.Fatalf("%s --help: %v", strings.Join(argv, " "), err)
	}
	var h help
	part := ""
	for line := range strings.SplitSeq(string(out), "\n") {
		entry, indented := strings.CutPrefix(line, "   ")
		switch {
		case !indented:
			part = line
		case strings.HasSuffix(part, "OPTIONS:") && strings.HasPrefix(entry, "-"):
			names, _, _ := strings.Cut(entry, "  ")
			for _, m := range flagWord.FindAllStringSubmatch(names, -1) {
				h.flags = append(h.flags, m[1])
			}
		case part == "COMMANDS:" && !strings.HasPrefix(entry, " "):
			h.commands = append(h.commands, strings.Fields(entry)[0])
		}
	}
	slices.Sort(h.flags)
	h.flags = slices.Compact(h.flags)
	if len(h.flags) == 0 {
		t.Fatalf("%s --help names no flag", strings.Join(argv, " "))
	}
	return h
}

// documented returns the flags that OPTIONS describes: those that stand at the
// margin, by subsection, "" being the text before the first.
func (p page) documented() map[string][]string {
	out := map[string][]string{}
	part := ""
	for line := range strings.SplitSeq(p.section("OPTIONS"), "\n") {
		if name, ok := strings.CutPrefix(line, "## "); ok {
			part = name
		}
		if strings.HasPrefix(line, "*-") {
			for _, m := range flagWord.FindAllStringSubmatch(line, -1) {
				out[part] = append(out[part], m[1])
			}
		}
	}
	return out
}

// A page and --help have the same flags, and so for each subcommand, whose own
// stand under its name and the shared ones under "Each but …".
func TestPagesOptions(t *testing.T) {
	compare := func(what string, page, help []string) {
		page = slices.Sorted(slices.Values(page))
		for _, f := range help {
			if !slices.Contains(page, f) {
				t.Errorf("%s: --help has %s, and the page does not", what, f)
			}
		}
		for i, f := range page {
			if !slices.Contains(help, f) {
				t.Errorf("%s: the page has %s, and --help does not", what, f)
			}
			if i > 0 && page[i-1] == f {
				t.Errorf("%s: the page has %s twice", what, f)
			}
		}
	}
	for _, c := range pageCommands(t) {
		p, h := readPage(t, c+".1"), askHelp(t, c)
		options := p.documented()
		if len(h.commands) == 0 {
			compare(c, options[""], h.flags)
			continue
		}
		shared, but := "", []string{}
		for part := range options {
			if names, ok := strings.CutPrefix(part, "Each but "); ok {
				shared, but = part, strings.Split(names, ", ")
			} else if part != c+" itself" && !slices.Contains(h.commands, part) {
				t.Errorf("%s: OPTIONS has a part %q, and there is no such command", p.name, part)
			}
		}
		compare(c, options[c+" itself"], h.flags)
		for _, sub := range h.commands {
			if !strings.Contains(p.section("SYNOPSIS"), "*"+sub+"*") {
				t.Errorf("%s: SYNOPSIS does not show %s", p.name, sub)
			}
			own := slices.Clone(options[sub])
			if !slices.Contains(but, sub) {
				own = append(own, options[shared]...)
			}
			compare(c+" "+sub, own, askHelp(t, c, sub).flags)
		}
	}
}

// holdTable compares a table of a page, from its head line on, with what the
// code has. UPDATE_PAGES=1 rewrites it.
func holdTable(t *testing.T, name, head string, rows [][]string) {
	t.Helper()
	p := readPage(t, name)
	before, rest, ok := strings.Cut(p.text, head)
	if !ok {
		t.Fatalf("%s: no table with the head\n%s", name, head)
	}
	got, after, _ := strings.Cut(rest, "\n\n")
	var b strings.Builder
	for _, row := range rows {
		mark := "|  "
		for _, cell := range row {
			b.WriteString("\n" + mark + cell)
			mark = ":  "
		}
	}
	want := b.String()
	switch {
	case got == want:
	case os.Getenv("UPDATE_PAGES") != "":
		text := before + head + want + "\n\n" + after
		if err := os.WriteFile(filepath.Join(pageDir, name+".scd"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s: the table is not that of the code (UPDATE_PAGES=1 go test ./e2e -run TestPages writes it); want%s\n\ngot%s", name, want, got)
	}
}

// literalWidth is how many columns of a terminal's 80 are left to literal text.
const literalWidth = 69

// layOut writes rows in columns, the last of which is broken into lines that
// fit. Numbers stand to the right.
func layOut(rows [][]string) string {
	widths := make([]int, len(rows[0])-1)
	for _, row := range rows {
		for i := range widths {
			widths[i] = max(widths[i], len(row[i]))
		}
	}
	var b strings.Builder
	for _, row := range rows {
		line := ""
		for i, w := range widths {
			if _, err := strconv.Atoi(row[i]); err == nil {
				line += fmt.Sprintf("%*s  ", w, row[i])
			} else {
				line += fmt.Sprintf("%-*s  ", w, row[i])
			}
		}
		indent := len(line)
		for i, word := range strings.Fields(row[len(widths)]) {
			switch {
			case i == 0:
			case len(line)+1+len(word) > literalWidth:
				b.WriteString(line + "\n")
				line = strings.Repeat(" ", indent)
			default:
				line += " "
			}
			line += word
		}
		b.WriteString(line + "\n")
	}
	return b.String()
}

// holdLiteral compares the literal text of a page that begins with a word with
// what the code has. Literal text and no table of scdoc: groff hyphenates the
// cells of a table, and what a reader searches for would not be found.
// UPDATE_PAGES=1 rewrites it.
func holdLiteral(t *testing.T, name, word, want string) {
	t.Helper()
	p := readPage(t, name)
	before, rest, ok := strings.Cut(p.text, "\n```\n"+word)
	got, after, closed := strings.Cut(rest, "```\n")
	if !ok || !closed {
		t.Fatalf("%s: no literal text that begins with %s", name, word)
	}
	got = word + got
	switch {
	case got == want:
	case os.Getenv("UPDATE_PAGES") != "":
		text := before + "\n```\n" + want + "```\n" + after
		if err := os.WriteFile(filepath.Join(pageDir, name+".scd"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s: the list is not that of the code (UPDATE_PAGES=1 go test ./e2e -run TestPages writes it); want\n%s\ngot\n%s", name, want, got)
	}
}

func TestPagesStatuses(t *testing.T) {
	rows := [][]string{{"kind", "status", "meaning"}}
	for _, r := range fail.Table {
		rows = append(rows, []string{string(r.Kind), strconv.Itoa(r.Status), r.Meaning})
	}
	holdLiteral(t, "forge.7", "kind", layOut(rows))
}

func TestPagesEvents(t *testing.T) {
	rows := [][]string{{"event", "severity", "meaning"}}
	for _, r := range trail.Events {
		rows = append(rows, []string{string(r.Event), string(r.Severity), r.Meaning})
	}
	holdLiteral(t, "forge-record.5", "event", layOut(rows))
	// The first words that forge-audit(1) says are Forge's own.
	first := map[string]bool{}
	for _, r := range trail.Events {
		word, _, _ := strings.Cut(string(r.Event), ".")
		first[word] = true
	}
	list := strings.Join(slices.Sorted(maps.Keys(first)), ", ")
	if text := strings.Join(strings.Fields(readPage(t, "forge-audit.1").text), " "); !strings.Contains(text, "are refused: "+list+".") {
		t.Errorf("forge-audit.1 does not say that these words are refused: %s.", list)
	}
}

func TestPagesLimits(t *testing.T) {
	what := map[string]string{
		"wall_s":       "seconds from start to end",
		"cpu_s":        "seconds of CPU time, of each process",
		"memory_mb":    "MiB of private memory, of each process",
		"output_bytes": "bytes of standard output that count as the answer",
	}
	var rows [][]string
	most := tool.MaxLimits.Fields()
	for i, f := range tool.DefaultLimits.Fields() {
		rows = append(rows, []string{f.Name, strconv.FormatInt(*f.Value, 10), strconv.FormatInt(*most[i].Value, 10), what[f.Name]})
	}
	holdTable(t, "forge-policy.5", "|[ *limit*\n:[ *default*\n:[ *most*\n:< *of what*", rows)
}

// forge-audit(1) has every reason that the code gives, with the statuses that a
// verdict ends with.
func TestPagesVerdicts(t *testing.T) {
	want := map[string]bool{}
	for _, path := range []string{"../lib/chain/chain.go", "../lib/trail/report.go"} {
		source, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`Reason += "([a-z0-9_]+)"`).FindAllStringSubmatch(string(source), -1) {
			want[m[1]] = true
		}
	}
	if len(want) < 10 {
		t.Fatalf("found the reasons %v", want)
	}
	got := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^([a-z0-9_]+) +[14]  \S`).FindAllStringSubmatch(readPage(t, "forge-audit.1").section("VERDICTS"), -1) {
		got[m[1]] = true
	}
	if !maps.Equal(got, want) {
		t.Errorf("the page has the reasons %v, the code %v", slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
	}
}

// What a reader searches for does not stand in a table, where groff would
// hyphenate it.
func TestPagesTables(t *testing.T) {
	for _, p := range readPages(t) {
		for line := range strings.SplitSeq(p.text, "\n") {
			if !regexp.MustCompile(`^[|:]`).MatchString(line) {
				continue
			}
			words := regexp.MustCompile(`[a-z_.]+[a-z]`).FindAllString(line, -1)
			for _, r := range fail.Table {
				if slices.Contains(words, string(r.Kind)) {
					t.Errorf("%s: the kind %s is in a table: %s", p.name, r.Kind, line)
				}
			}
			for _, r := range trail.Events {
				if slices.Contains(words, string(r.Event)) {
					t.Errorf("%s: the event %s is in a table: %s", p.name, r.Event, line)
				}
			}
		}
	}
}

// The policy that forge-policy(5) shows as the built-in one is the built-in one,
// and its examples are policies.
func TestPagesPolicy(t *testing.T) {
	p := readPage(t, "forge-policy.5")
	shown, err := policy.Parse([]byte(p.literal(t, `"failures"`)))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(shown.Breakers, policy.Default().Breakers) || shown.Limits != policy.Default().Limits ||
		!reflect.DeepEqual(shown.PersonaNamespaces, policy.Default().PersonaNamespaces) ||
		!reflect.DeepEqual(shown.PersonaSandboxOverrides, policy.Default().PersonaSandboxOverrides) ||
		len(shown.ForbiddenToolNames) != 0 {
		t.Errorf("the page shows %+v\nbuilt in is %+v", shown, policy.Default())
	}
	for _, text := range p.literals() {
		if strings.HasPrefix(text, "{") {
			if _, err := policy.Parse([]byte(text)); err != nil {
				t.Errorf("%v:\n%s", err, text)
			}
		}
	}
	for _, member := range []string{
		"forbidden_tool_names", "breakers.per_tool_rpm", "breakers.per_session_forge_count", "breakers.failures", "breakers.cooldown_s",
		"persona_namespaces", "persona_sandbox_overrides", "persona_secret_allow", "limits", "approve",
	} {
		if !strings.Contains(p.section("MEMBERS"), "_"+member+"_") {
			t.Errorf("MEMBERS does not describe %s", member)
		}
	}
}

// A page renders without a complaint but one that scdoc always causes, in lines
// that fit a terminal, and loses no backslash.
func TestPagesRender(t *testing.T) {
	for _, p := range readPages(t) {
		roff, err := pageRun(t, p.text, "scdoc")
		if err != nil {
			t.Errorf("%s: scdoc: %s", p.name, roff)
			continue
		}
		file := filepath.Join(t.TempDir(), p.name)
		if err := os.WriteFile(file, []byte(roff), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := pageRun(t, "", "mandoc", "-Tlint", "-W", "error", file); err != nil {
			t.Errorf("%s: mandoc: %s", p.name, out)
		}
		out, _ := pageRun(t, "", "mandoc", "-Tlint", "-W", "warning", file)
		for line := range strings.Lines(out) {
			if !strings.Contains(line, "skipping paragraph macro") {
				t.Errorf("%s: %s", p.name, line)
			}
		}
		out, _ = pageRun(t, "", "mandoc", "-Tutf8", "-O", "width=80", file)
		overstruck := regexp.MustCompile(".\b")
		for line := range strings.Lines(out) {
			if line = overstruck.ReplaceAllString(strings.TrimSuffix(line, "\n"), ""); utf8.RuneCountInString(line) > 80 {
				t.Errorf("%s: %d columns: %s", p.name, utf8.RuneCountInString(line), line)
			}
		}
		literal := false
		for n, line := range strings.Split(p.text, "\n") {
			if strings.TrimLeft(line, "\t") == "```" {
				literal = !literal
			} else if literal && strings.Contains(strings.ReplaceAll(line, `\\`, ""), `\`) {
				t.Errorf("%s line %d: scdoc drops a single backslash: %s", p.name, n+1, line)
			}
			if utf8.RuneCountInString(line) > 80 && !strings.HasPrefix(line, ":") {
				t.Errorf("%s line %d: %d columns", p.name, n+1, utf8.RuneCountInString(line))
			}
		}
	}
}

// No literal text of a page gives a command a flag that it does not have.
func TestPagesExampleFlags(t *testing.T) {
	helps := map[string]help{}
	for _, c := range pageCommands(t) {
		helps[c] = askHelp(t, c)
		for _, sub := range helps[c].commands {
			helps[c+" "+sub] = askHelp(t, c, sub)
		}
	}
	uses := map[string]int{}
	for _, p := range readPages(t) {
		for _, block := range p.literals() {
			if p.name == "forge-record.5" && strings.HasPrefix(block, "{") {
				continue // a line of the trail
			}
			shell := strings.Contains(block, "$ ") || strings.Contains(block, "* * *")
			command, sub := "", false
			for line := range strings.Lines(block) {
				if shell && !strings.HasSuffix(line, "\\\n") && !strings.HasPrefix(line, " ") {
					command = ""
				}
				for word := range strings.FieldsSeq(strings.NewReplacer("|", " | ", ";", " | ", "&&", " | ", ")", " | ").Replace(line)) {
					word = strings.Trim(word, `"',[]{}()`)
					base := filepath.Base(word)
					switch {
					case word == "|":
						command = ""
					case helps[base].flags != nil:
						command, sub = base, len(helps[base].commands) > 0
						uses[base]++
					case command == "forge" && helps["forge-"+word].flags != nil:
						command, sub = "forge-"+word, len(helps["forge-"+word].commands) > 0
					case command != "" && sub && helps[command+" "+word].flags != nil:
						command, sub = command+" "+word, false
						uses[command]++
					case command != "" && strings.HasPrefix(word, "-") && word != "--":
						flag, _, _ := strings.Cut(word, "=")
						if !slices.Contains(helps[command].flags, flag) {
							t.Errorf("%s: %s has no flag %s: %s", p.name, command, flag, line)
						}
					}
				}
			}
		}
	}
	for name := range helps {
		if uses[name] == 0 {
			t.Errorf("no page has an example of %s", name)
		}
	}
}

// What a reader can check by hand comes out as the pages say.
func TestPagesDigests(t *testing.T) {
	record := readPage(t, "forge-record.5")
	_, folded, _ := strings.Cut(record.literal(t, "| fold -w 66"), "fold -w 66\n")
	line, reason := chain.Parse([]byte(strings.ReplaceAll(folded, "\n", "") + "\n"))
	if reason != "" {
		t.Fatalf("forge-record.5: the line does not stand: %s", reason)
	}
	command, sum, _ := strings.Cut(strings.TrimPrefix(record.literal(t, "$ printf %s '{"), "$ "), "sha256sum\n")
	out, err := pageRun(t, command+"sha256sum", "sh")
	if err != nil || out != sum || !strings.HasPrefix(sum, line.Sha.String()) {
		t.Errorf("forge-record.5: printf gives %q %v, the page says %q, the line %s", out, err, sum, line.Sha)
	}
	// The note opens with the key that is shown above it, and with no other.
	_, text, _ := strings.Cut(record.literal(t, "fold -w 68"), "audit.pub\n")
	public, text, _ := strings.Cut(text, "\n")
	_, text, _ = strings.Cut(text, "fold -w 68\n")
	body, signature, _ := strings.Cut(text, "\n\n")
	note := body + "\n\n" + strings.ReplaceAll(signature, "\n", "") + "\n"
	if c, err := chain.OpenNote([]byte(note), []string{public}); err != nil || c.Text() != body+"\n" || !slices.Equal(c.Keys, []string{"audit"}) {
		t.Errorf("forge-record.5: the note gives %+v %v", c, err)
	}
	if _, err := chain.OpenNote([]byte(strings.Replace(note, "\nseq 1", "\nseq 2", 1)), []string{public}); err == nil {
		t.Error("forge-record.5: the note opens although its text was changed")
	}
	file := readPage(t, "forge-store.5").literal(t, "head -c -78")
	_, rest, _ := strings.Cut(file, "\n")
	folded, rest, _ = strings.Cut(rest, "$ head -c -78")
	text = strings.ReplaceAll(folded, "\n", "") + "\n"
	parsed, err := tool.Parse([]byte(text))
	if err != nil {
		t.Fatalf("forge-store.5: the tool file: %v", err)
	}
	digest := sha256.Sum256([]byte(text[:len(text)-78]))
	if hex.EncodeToString(digest[:]) != parsed.Digest || !strings.Contains(rest, parsed.Digest+"  -\n") {
		t.Errorf("forge-store.5: the digest is %x, the page says %s", digest, rest)
	}
}

// pageFiles is what a reader of the examples has in the directory, and the
// further states the examples of a page begin in.
const pageFiles = `
mkdir fib csv.stats sha1 code.fib clone clone/.git clone/.forge clone/.forge/tools
chmod 700 clone/.forge
cat > fib/tool.toml <<'END'
name = "fib"
description = "The nth Fibonacci number."

[meta]
deterministic = true

[input_schema]
type = "object"
required = ["n"]

[input_schema.properties.n]
type = "integer"
minimum = 0
END
cat > fib/tool.py <<'END'
import json, sys
n = json.load(sys.stdin)["n"]
a, b = 0, 1
for _ in range(n):
    a, b = b, a + b
print(json.dumps({"ok": True, "data": a}))
END
cp fib/tool.py code.fib
sed 's/"fib"/"code.fib"/' fib/tool.toml > code.fib/tool.toml
cat > csv.stats/tool.toml <<'END'
name = "csv.stats"
description = "Mean, median and deviation of a column of a CSV file."

[meta]
deterministic = true

[input_schema]
type = "object"
required = ["path", "column"]
additionalProperties = false

[input_schema.properties.path]
type = "string"
x-bind = "ro"

[input_schema.properties.column]
type = "string"
END
cat > csv.stats/tool.py <<'END'
import csv, json, statistics, sys

arg = json.load(sys.stdin)
with open(arg["path"], newline="") as f:
    xs = [float(row[arg["column"]]) for row in csv.DictReader(f)]
print(json.dumps({"ok": True, "data": {
    "mean": statistics.fmean(xs), "median": statistics.median(xs),
    "stdev": statistics.stdev(xs)}}))
END
printf 'city,temp\nOslo,3.5\nRome,18.25\nCairo,29\n' > t.csv
`

var pageStates = map[string]string{
	"files": pageFiles + `
echo '{"name": "here", "description": "Where?", "runtime": "bash", "input_schema": {"type": "object"},
  "impl": "echo '"'"'{\"ok\": true, \"data\": \"here\"}'"'"'"}' | forge-forge --home "$HOME/other"
cp other/tools/here.json clone/.forge/tools/
`,
	"forged": pageFiles + `forge-forge fib; forge-forge csv.stats`,
	// The trail that forge-record(5) shows.
	"used": pageFiles + `
forge-forge fib
for i in 1 2 3; do echo '{"n": 300}' | forge-call fib; done
echo '{"n": -1}' | forge-call fib
forge-forge csv.stats
echo '{"path": "t.csv", "column": "temp"}' | forge-call csv.stats
echo '{"path": "/proc/version", "column": "temp"}' | forge-call csv.stats
export FORGE_PERSONA=coder FORGE_SESSION=s1
forge-forge code.fib
forge-forge fib
forge-promote code.fib
unset FORGE_PERSONA FORGE_SESSION
echo '{"n": 10}' | forge-call code.fib
mkdir witness
`,
}

var pageStart = map[string]string{
	"forge-forge.1": "files", "forge.7": "files", "forge-mcp.1": "files", "forge-sandbox.7": "files",
	"forge-call.1": "forged", "forge-promote.1": "forged", "forge-policy.5": "forged",
	"forge.1": "used", "forge-list.1": "used", "forge-audit.1": "used", "forge-store.5": "used", "forge-record.5": "used",
}

// pageExample is a command of a page and what the page says it prints.
type pageExample struct{ command, output string }

// examples takes the shell sessions of a page apart. A command goes on while a
// shell finds it incomplete.
func (p page) examples(t *testing.T) []pageExample {
	t.Helper()
	var out []pageExample
	for _, block := range p.literals() {
		var now *pageExample
		complete := true
		for line := range strings.Lines(block) {
			if text, ok := strings.CutPrefix(line, "$ "); ok && complete {
				out = append(out, pageExample{command: text})
				now = &out[len(out)-1]
			} else if now == nil {
				break // not a session
			} else if complete {
				now.output += line
				continue
			} else {
				now.command += line
			}
			complete = false
			if !strings.HasSuffix(now.command, "\\\n") {
				_, err := pageRun(t, now.command, "bash", "-n")
				complete = err == nil
			}
		}
	}
	return out
}

// elsewhere makes programs that stand for another user and another host, both of
// which are this one here: ssh does what the forced command of the page says.
func (p page) elsewhere(t *testing.T, home string) (path string) {
	t.Helper()
	forced := "false"
	for _, block := range p.literals() {
		if _, rest, ok := strings.Cut(strings.Join(strings.Fields(block), " "), `restrict,command="`); ok {
			forced, _, _ = strings.Cut(rest, `"`)
		}
	}
	path = filepath.Join(home, "elsewhere")
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, does := range map[string]string{
		"sudo": `[ "$1 $2" = "-u auditor" ] && shift 2 && cp ~/ann.pub ~/witness && exec "$@"`,
		"ssh":  `cd "$HOME" && exec ` + p.here(t, home, forced),
		"scp":  `[ "$1" = -pr ] && exec cp -pr "$HOME/${2#ann@host:}" "$3"`,
	} {
		if err := os.WriteFile(filepath.Join(path, name), []byte("#!/bin/sh\n"+does+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

// here gives a command the paths that it has in a test.
func (p page) here(t *testing.T, home, command string) string {
	return strings.NewReplacer("/usr/local/bin/forge", script.Bin(t)+"/forge", "/var/lib/witness/", home+"/witness/").Replace(command)
}

// Every example of a page prints what the page says, but for times, numbers of
// processes and the hashes that follow from them, and line breaks of fold. After
// them, what a page has for a crontab has nothing to say.
func TestPagesExamples(t *testing.T) {
	endless := regexp.MustCompile(`tail -f`)
	crontab := regexp.MustCompile(`(?m)^(?:[0-9*/,-]+ ){5}(.*)$`)
	for _, p := range readPages(t) {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			home := t.TempDir()
			path := "PATH=" + p.elsewhere(t, home) + ":" + script.Bin(t) + ":/usr/bin:/bin"
			const mark = "=====\n"
			var sh strings.Builder
			fmt.Fprintf(&sh, "{ %s\n} > setup.log 2>&1\nforge-audit verify >> setup.log 2>&1\n", pageStates[pageStart[p.name]])
			var examples []pageExample
			for _, e := range p.examples(t) {
				if !endless.MatchString(e.command) {
					examples = append(examples, e)
					// check.sh is shown by cat: have it before.
					if name, ok := strings.CutPrefix(e.command, "cat "); ok && e.output != "" {
						fmt.Fprintf(&sh, "[ -e %[1]s ] || cat > %[1]s <<'END'\n%[2]sEND\n", strings.TrimSpace(name), e.output)
					}
					fmt.Fprintf(&sh, "printf %q\n%s", mark, p.here(t, home, e.command))
				}
			}
			if len(examples) == 0 || pageStart[p.name] == "" {
				t.Fatalf("%d examples, start %q", len(examples), pageStart[p.name])
			}
			cmd := exec.Command("bash", "-c", sh.String())
			cmd.Dir = home
			cmd.Env = []string{path, "HOME=" + home}
			var out bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &out
			if err := cmd.Run(); cmd.ProcessState == nil {
				t.Fatal(err)
			}
			got := strings.Split(out.String(), mark)[1:]
			if len(got) != len(examples) {
				log, _ := os.ReadFile(filepath.Join(home, "setup.log"))
				t.Fatalf("%d of %d examples came to an end:\n%s\n%s", len(got), len(examples), out.String(), log)
			}
			for i, e := range examples {
				if have, want := steady(got[i], home), steady(e.output, home); have != want {
					t.Errorf("$ %sthe page says\n%s\nit prints\n%s", e.command, e.output, got[i])
				}
			}
			for _, block := range p.literals() {
				for _, job := range crontab.FindAllStringSubmatch(block, -1) {
					cmd := exec.Command("sh", "-c", p.here(t, home, job[1]))
					cmd.Dir, cmd.Env = home, []string{path, "HOME=" + home}
					if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
						t.Errorf("cron would mail of %s: %v\n%s", job[1], err, out)
					}
				}
			}
		})
	}
}

var unsteady = []struct {
	re *regexp.Regexp
	to string
}{
	{regexp.MustCompile(`20[0-9]{6}T[0-9]{6}Z-[0-9a-f]{8}`), "RUN"},
	{regexp.MustCompile(`"ts":"[^"]*"?`), "TS"},
	{regexp.MustCompile(`"boot":"[^"]*"`), "BOOT"},
	{regexp.MustCompile(`"(up|pid|uid|ms|duration_ms)":[0-9]+`), "N"},
	{regexp.MustCompile(`offset[0-9]+`), "OFFSET"},
	{regexp.MustCompile(`(sha)?[0-9a-f]{64}|log[0-9a-f]{32}`), "HEX"},
	{regexp.MustCompile(`audit\+[0-9a-f]{8}\+[0-9A-Za-z+/]{44}|—audit[0-9A-Za-z+/=]{92}`), "KEY"},
	{regexp.MustCompile(`end[0-9]+time20[0-9TZ:-]+`), "ENDTIME"},
	{regexp.MustCompile(`pids=none`), ""}, // as root
}

// steady is text without what differs from run to run.
func steady(text, home string) string {
	text = strings.ReplaceAll(strings.ReplaceAll(text, home, "/home/ann"), "~", "/home/ann")
	text = strings.Join(strings.Fields(text), "")
	for _, u := range unsteady {
		text = u.re.ReplaceAllString(text, u.to)
	}
	return text
}

// Completion offers what --help has, and the tools there are.
func TestCompletion(t *testing.T) {
	home := t.TempDir()
	complete := func(words ...string) []string {
		t.Helper()
		line := `. "$OLDPWD/../completions/forge.bash"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}
			_forge "$1" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"; printf '%s\n' "${COMPREPLY[@]}"`
		cmd := exec.Command("bash", append([]string{"--norc", "-c", line, "bash"}, words...)...)
		wd, _ := os.Getwd()
		cmd.Dir = home
		cmd.Env = []string{"PATH=" + script.Bin(t) + ":/usr/bin:/bin", "HOME=" + home, "OLDPWD=" + wd}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%q: %v: %s", words, err, out)
		}
		return strings.Fields(string(out))
	}
	cmd := exec.Command("bash", "-c", pageStates["forged"])
	cmd.Dir, cmd.Env = home, []string{"PATH=" + script.Bin(t) + ":/usr/bin:/bin", "HOME=" + home}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var names []string
	for _, c := range pageCommands(t) {
		if name, ok := strings.CutPrefix(c, "forge-"); ok {
			names = append(names, name)
			if got, want := complete(c, "-"), askHelp(t, c).flags; !reflect.DeepEqual(slices.Sorted(slices.Values(got)), want) {
				t.Errorf("%s -: got %q, want %q", c, got, want)
			}
		}
	}
	for _, c := range []struct {
		words []string
		want  []string
	}{
		{[]string{"forge", ""}, append(slices.Clone(names), "help")},
		{[]string{"forge", "li"}, []string{"list"}},
		{[]string{"forge", "call", ""}, []string{"csv.stats", "fib"}},
		{[]string{"forge-call", "--check", "c"}, []string{"csv.stats"}},
		{[]string{"forge-call", "fib", ""}, nil},
		{[]string{"forge-promote", ""}, []string{"csv.stats", "fib"}},
		{[]string{"forge-list", "--plain", ""}, []string{"csv.stats", "fib"}},
		{[]string{"forge-promote", "--to", ""}, []string{"session", "project", "user"}},
		{[]string{"forge-list", "--scope", ""}, []string{"task", "session", "project", "user"}},
		{[]string{"forge-list", "--capability", "read,w"}, []string{"read,write"}},
		{[]string{"forge-audit", ""}, askHelp(t, "forge-audit").commands},
		{[]string{"forge", "audit", "ve"}, []string{"verify"}},
		{[]string{"forge-audit", "tail", "-"}, askHelp(t, "forge-audit", "tail").flags},
		{[]string{"forge-call", "--home", "csv"}, []string{"csv.stats"}},
		{[]string{"forge-forge", "f"}, []string{"fib"}},
		{[]string{"forge-audit", "verify", "-"}, askHelp(t, "forge-audit", "verify").flags},
		{[]string{"forge-audit", "witness", "-"}, askHelp(t, "forge-audit", "witness").flags},
		{[]string{"forge-audit", "verify", "--trust", "t."}, []string{"t.csv"}},
		{[]string{"forge-audit", "verify", "--workers", ""}, nil},
		{[]string{"forge-audit", "witness", "--file", "fib/tool.t"}, []string{"fib/tool.toml"}},
		{[]string{"forge", "audit", "checkpoint", "--key", "t."}, []string{"t.csv"}},
		{[]string{"forge-audit", "tail", "--tool", ""}, []string{"csv.stats", "fib"}},
		{[]string{"forge", "audit", "tail", "--event", "forge.ca"}, nil},
		{[]string{"forge", "help", "li"}, []string{"list"}},
		{[]string{"forge", "he"}, []string{"help"}},
	} {
		got := complete(c.words...)
		slices.Sort(got)
		slices.Sort(c.want)
		if !slices.Equal(got, c.want) {
			t.Errorf("%q: got %q, want %q", c.words, got, c.want)
		}
	}
}
