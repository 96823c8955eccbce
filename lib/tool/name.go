package tool

import (
	"strings"

	"forge/lib/fail"
)

// Name is a tool's name: at most 48 bytes, lower-case words joined by single
// dots or underscores, safe as a file name and as an argument.
type Name string

const maxName = 48

// isName holds s to ^[a-z][a-z0-9]*([._][a-z0-9]+)*$. It is written out because
// compiling a pattern costs every command a tenth of its start.
func isName(s string) bool {
	joint := true // at the start of a word
	for i := range len(s) {
		switch c := s[i]; {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9' && i > 0:
			joint = false
		case (c == '.' || c == '_') && !joint:
			joint = true
		default:
			return false
		}
	}
	return !joint
}

// ParseName returns s as a Name. Errors are of kind name_invalid. The rule is
// in forge-store(5), NAMES.
func ParseName(s string) (Name, error) {
	hint := "write lower-case words joined by single dots or underscores, such as csv.stats"
	switch {
	case len(s) > maxName:
		return "", fail.New(fail.NameInvalid, "shorten it", "name of %d bytes, at most %d", len(s), maxName)
	case !isName(s):
		if near := suggest(s); near != "" {
			hint = "write " + near
		}
		return "", fail.New(fail.NameInvalid, hint, "name %q is not a tool name", s)
	}
	return Name(s), nil
}

// suggest folds s towards a name: lower case, other characters as underscores.
func suggest(s string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(s) {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '.':
			b.WriteRune(r)
		case r < 0x80 && r > ' ':
			b.WriteByte('_')
		case r == ' ':
			b.WriteByte('_')
		default:
			return "" // guessing at look-alikes would hide them
		}
	}
	s = b.String()
	if isName(s) {
		return s
	}
	return ""
}

// Wire returns the name as MCP clients take it, and as the file is named: every
// dot an underscore. Two names with one wire name never coexist in sight.
func (n Name) Wire() string { return strings.ReplaceAll(string(n), ".", "_") }

// Reserved says which word of n is not free to tools, "" if none. Names under
// me. are for what a person saved.
func (n Name) Reserved(saved bool) string {
	w := n.Wire()
	for _, p := range []string{"forge_", "skill_", "change_"} {
		if strings.HasPrefix(w, p) {
			return p + "*"
		}
	}
	if w == "run" {
		return "run"
	}
	if !saved && strings.HasPrefix(w, "me_") {
		return "me.*"
	}
	return ""
}

// Match says whether a glob (* any run of characters, ? one) fits the name in
// either of its forms. A glob without * or ? is a name itself, in either form.
func (n Name) Match(glob string) bool {
	return globMatch(glob, string(n)) || globMatch(glob, n.Wire()) ||
		globMatch(strings.ReplaceAll(glob, ".", "_"), n.Wire())
}

// globMatch is linear in the text for each star: no pattern is costly.
func globMatch(glob, s string) bool {
	star, mark := -1, 0
	i, j := 0, 0
	for i < len(s) {
		switch {
		case j < len(glob) && glob[j] == '*':
			star, mark = j, i
			j++
		case j < len(glob) && (glob[j] == '?' || glob[j] == s[i]):
			i, j = i+1, j+1
		case star >= 0:
			mark++
			i, j = mark, star+1
		default:
			return false
		}
	}
	for j < len(glob) && glob[j] == '*' {
		j++
	}
	return j == len(glob)
}
