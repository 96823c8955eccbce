package schema

import (
	"encoding/base64"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"forge/lib/wire"
)

// formats are the formats of strings that are checked, each by its RFC; those of
// generators by what reads them there.
var formats = map[string]func(string) bool{
	"date":                  isDate,
	"time":                  isTime,
	"date-time":             isDateTime,
	"time-local":            isLocalTime,
	"date-time-local":       isLocalDateTime,
	"partial-date-time":     isLocalDateTime, // schemars
	"duration":              isDuration,
	"email":                 isEmail,
	"ip":                    isIP, // schemars
	"ipv4":                  isIPv4,
	"ipv6":                  isIPv6,
	"ipvanyaddress":         isIP, // this and the next: pydantic
	"ipvanynetwork":         func(s string) bool { return isNetwork(s, isIP) },
	"ipv4network":           func(s string) bool { return isNetwork(s, isIPv4) },
	"ipv6network":           func(s string) bool { return isNetwork(s, isIPv6) },
	"ipvanyinterface":       func(s string) bool { return isInterface(s, isIP) },
	"ipv4interface":         func(s string) bool { return isInterface(s, isIPv4) },
	"ipv6interface":         func(s string) bool { return isInterface(s, isIPv6) },
	"uuid":                  isUUID,
	"uri":                   isURI,
	"uri-reference":         isURIReference,
	"hostname":              isHostname,
	"base64":                isBase64,
	"byte":                  isBase64, // OpenAPI
	"base64url":             isBase64URL,
	"regex":                 isRegex,
	"json-pointer":          isPointer,
	"relative-json-pointer": isRelativePointer,
}

// formatHints are formats of generators that say nothing to check: a path is a
// path whatever it is.
var formatHints = []string{"password", "binary", "double", "path", "file-path", "directory-path"}

// integerFormats are limits under another name.
var integerFormats = map[string][2]string{
	"int8": {"-128", "127"}, "uint8": {"0", "255"},
	"int16": {"-32768", "32767"}, "uint16": {"0", "65535"},
	"int32": {"-2147483648", "2147483647"}, "uint32": {"0", "4294967295"},
	"int64": {"-9223372036854775808", "9223372036854775807"}, "uint64": {"0", "18446744073709551615"},
	"int": {"-9223372036854775808", "9223372036854775807"}, "uint": {"0", "18446744073709551615"},
	"int128":  {"-170141183460469231731687303715884105728", "170141183460469231731687303715884105727"},
	"uint128": {"0", "340282366920938463463374607431768211455"},
}

// floatLimit is the largest float32.
const floatLimit = "340282346638528859811704183484516925440"

// format lowers format to a checker of ours, or to limits.
func (l *lowerer) format(n *node, t *target) error {
	v, ok := n.get("format")
	if !ok {
		return nil
	}
	name := v.Text()
	limits, isInt := integerFormats[name]
	switch {
	case v.Type() != wire.String:
		return l.doc.refuse(n.at, "format", "write the name of a format", "%s, want a string", short(v))
	case formats[name] != nil:
		t.put("format", wire.StringOf(privateFormat+name))
	case slices.Contains(formatHints, name):
	case name == "float":
		t.between("-"+floatLimit, floatLimit)
	case isInt:
		if n.types&typeInteger == 0 || n.types&typeNumber != 0 {
			return l.doc.refuse(n.at, "format", `write "type":"integer" beside it`, "format %q without type integer", name)
		}
		t.between(limits[0], limits[1])
	default:
		return l.doc.refuse(n.at, "format", formatHint(n, name), "format %q is not checked here", name)
	}
	return nil
}

// between asks of a target for numbers from lo to hi.
func (t *target) between(lo, hi string) {
	t.beside = append(t.beside, wire.ObjectOf(
		wire.Member{Name: "minimum", Value: wire.NumberOf(lo)},
		wire.Member{Name: "maximum", Value: wire.NumberOf(hi)}))
}

// digits returns the number that s is, if it is that many digits.
func digits(s string, n int) (int, bool) {
	if len(s) != n {
		return 0, false
	}
	for i := range n {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
	}
	x, err := strconv.Atoi(s)
	return x, err == nil
}

// isDate is full-date of RFC 3339.
func isDate(s string) bool {
	if len(s) != 10 || s[4] != '-' || s[7] != '-' {
		return false
	}
	y, ok1 := digits(s[:4], 4)
	m, ok2 := digits(s[5:7], 2)
	d, ok3 := digits(s[8:], 2)
	if !ok1 || !ok2 || !ok3 || m < 1 || m > 12 || d < 1 {
		return false
	}
	last := []int{31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}[m-1]
	if m == 2 && y%4 == 0 && (y%100 != 0 || y%400 == 0) {
		last = 29
	}
	return d <= last
}

// partialTime reads the partial-time of RFC 3339 that s begins with.
func partialTime(s string) (h, m, sec int, rest string, ok bool) {
	if len(s) < 8 || s[2] != ':' || s[5] != ':' {
		return 0, 0, 0, "", false
	}
	h, ok1 := digits(s[:2], 2)
	m, ok2 := digits(s[3:5], 2)
	sec, ok3 := digits(s[6:8], 2)
	if !ok1 || !ok2 || !ok3 || h > 23 || m > 59 || sec > 60 {
		return 0, 0, 0, "", false
	}
	rest = s[8:]
	if strings.HasPrefix(rest, ".") {
		n := 1
		for n < len(rest) && rest[n] >= '0' && rest[n] <= '9' {
			n++
		}
		if n == 1 {
			return 0, 0, 0, "", false
		}
		rest = rest[n:]
	}
	return h, m, sec, rest, true
}

// isTime is full-time of RFC 3339: an offset is part of it, and second 60
// stands only where it is 23:59:60 in UTC.
func isTime(s string) bool {
	h, m, sec, rest, ok := partialTime(s)
	if !ok {
		return false
	}
	off := 0
	switch {
	case rest == "Z" || rest == "z":
	case len(rest) == 6 && (rest[0] == '+' || rest[0] == '-') && rest[3] == ':':
		oh, ok1 := digits(rest[1:3], 2)
		om, ok2 := digits(rest[4:], 2)
		if !ok1 || !ok2 || oh > 23 || om > 59 {
			return false
		}
		off = oh*60 + om
		if rest[0] == '-' {
			off = -off
		}
	default:
		return false
	}
	return sec < 60 || ((h*60+m-off)%1440+1440)%1440 == 1439
}

// isLocalTime is local-time of TOML 1.0: partial-time of RFC 3339.
func isLocalTime(s string) bool {
	_, _, _, rest, ok := partialTime(s)
	return ok && rest == ""
}

// isLocalDateTime is local-date-time of TOML 1.0: a space may stand for the T.
func isLocalDateTime(s string) bool {
	return len(s) > 11 && strings.IndexByte("Tt ", s[10]) >= 0 && isDate(s[:10]) && isLocalTime(s[11:])
}

// isDateTime is date-time of RFC 3339.
func isDateTime(s string) bool {
	return len(s) > 11 && (s[10] == 'T' || s[10] == 't') && isDate(s[:10]) && isTime(s[11:])
}

var duration = pattern(`^P([0-9]+W|([0-9]+Y([0-9]+M([0-9]+D)?)?|[0-9]+M([0-9]+D)?|[0-9]+D)(T([0-9]+H([0-9]+M([0-9]+S)?)?|[0-9]+M([0-9]+S)?|[0-9]+S))?|T([0-9]+H([0-9]+M([0-9]+S)?)?|[0-9]+M([0-9]+S)?|[0-9]+S))$`)

// isDuration is duration of RFC 3339, appendix A.
func isDuration(s string) bool { return duration().MatchString(s) }

// isEmail is Mailbox of RFC 5321: no display name, no comments.
func isEmail(s string) bool {
	at := strings.LastIndexByte(s, '@')
	if at < 1 || len(s) > 254 || at > 64 {
		return false
	}
	local, domain := s[:at], s[at+1:]
	if !isLocal(local) {
		return false
	}
	if strings.HasPrefix(domain, "[") && strings.HasSuffix(domain, "]") {
		addr := domain[1 : len(domain)-1]
		if v6, ok := strings.CutPrefix(addr, "IPv6:"); ok {
			return isIPv6(v6)
		}
		return isIPv4(addr)
	}
	return isHostname(domain)
}

func isLocal(s string) bool {
	if len(s) > 1 && s[0] == '"' && s[len(s)-1] == '"' {
		for i := 1; i < len(s)-1; i++ {
			switch c := s[i]; {
			case c == '\\' && i+1 < len(s)-1 && s[i+1] >= ' ' && s[i+1] <= '~':
				i++
			case c < ' ' || c > '~' || c == '"' || c == '\\':
				return false
			}
		}
		return true
	}
	for atom := range strings.SplitSeq(s, ".") {
		if atom == "" {
			return false
		}
		for i := range len(atom) {
			if !isAlnum(atom[i]) && strings.IndexByte("!#$%&'*+-/=?^_`{|}~", atom[i]) < 0 {
				return false
			}
		}
	}
	return true
}

// isIPv4 is four decimal numbers without leading zeros, RFC 2673.
func isIPv4(s string) bool {
	a, err := netip.ParseAddr(s)
	return err == nil && a.Is4()
}

// isIPv6 is RFC 4291 without a zone.
func isIPv6(s string) bool {
	a, err := netip.ParseAddr(s)
	return err == nil && a.Is6() && a.Zone() == ""
}

func isIP(s string) bool { return isIPv4(s) || isIPv6(s) }

// isInterface is an address with the length of its network's prefix behind a
// slash, as in RFC 4632 and RFC 4291; without one it is the address alone.
func isInterface(s string, isAddress func(string) bool) bool {
	addr, _, long := strings.Cut(s, "/")
	_, err := netip.ParsePrefix(s)
	return isAddress(addr) && (!long || err == nil)
}

// isNetwork is the like, of which the bits behind the prefix are zero.
func isNetwork(s string, isAddress func(string) bool) bool {
	p, err := netip.ParsePrefix(s)
	return isInterface(s, isAddress) && (err != nil || p == p.Masked())
}

// isUUID is RFC 4122, in either case.
func isUUID(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if i == 8 || i == 13 || i == 18 || i == 23 {
			if c != '-' {
				return false
			}
		} else if !(c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F') {
			return false
		}
	}
	return true
}

// isURI is a URI of RFC 3986: with a scheme, and of its characters alone.
func isURI(s string) bool {
	u, err := url.Parse(s)
	return err == nil && u.IsAbs() && isURIReference(s)
}

// isURIReference is URI-reference of RFC 3986.
func isURIReference(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !isAlnum(c) && strings.IndexByte("-._~:/?#[]@!$&'()*+,;=%", c) < 0 {
			return false
		}
		if c == '%' && (i+2 >= len(s) || !isHex(s[i+1]) || !isHex(s[i+2])) {
			return false
		}
	}
	if strings.Count(s, "#") > 1 {
		return false
	}
	u, err := url.Parse(s)
	if err != nil {
		return false
	}
	// Brackets stand around an address in the host, nowhere else.
	rest := s
	if i := strings.Index(s, "//"); i >= 0 && u.Host != "" {
		end := strings.IndexAny(s[i+2:], "/?#")
		if end < 0 {
			end = len(s) - i - 2
		}
		auth := s[i+2 : i+2+end]
		rest = s[:i] + s[i+2+end:]
		host := auth[strings.LastIndexByte(auth, '@')+1:]
		if user := strings.TrimSuffix(auth[:len(auth)-len(host)], "@"); strings.ContainsAny(user, "[]@") {
			return false
		}
		if strings.ContainsAny(host, "[]") {
			close := strings.IndexByte(host, ']')
			if host[0] != '[' || close < 0 || !isIPv6(host[1:close]) && !ipFuture().MatchString(host[1:close]) {
				return false
			}
		}
	}
	return !strings.ContainsAny(rest, "[]")
}

var ipFuture = pattern(`^v[0-9A-Fa-f]+\.[A-Za-z0-9._~!$&'()*+,;=:-]+$`)

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

// isHostname is RFC 1123, in ASCII; a name of the form xn-- is taken as it is.
func isHostname(s string) bool {
	if s == "" || len(s) > 253 {
		return false
	}
	for label := range strings.SplitSeq(s, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		for i := range len(label) {
			if !isAlnum(label[i]) && label[i] != '-' {
				return false
			}
		}
		if len(label) > 3 && label[2:4] == "--" && !strings.EqualFold(label[:2], "xn") {
			return false
		}
	}
	return true
}

// isBase64 is RFC 4648, section 4: padded, and without line ends.
func isBase64(s string) bool {
	_, err := base64.StdEncoding.Strict().DecodeString(s)
	return err == nil && !strings.ContainsAny(s, "\r\n")
}

// isBase64URL is RFC 4648, section 5, where the padding may be left out.
func isBase64URL(s string) bool {
	enc := base64.RawURLEncoding
	if strings.HasSuffix(s, "=") {
		enc = base64.URLEncoding
	}
	_, err := enc.Strict().DecodeString(s)
	return err == nil && !strings.ContainsAny(s, "\r\n")
}

// isRegex is a pattern of ECMA-262 of at most 64 KiB, with what "pattern" cannot
// take.
func isRegex(s string) bool {
	_, why := (&translator{in: s, lenient: true}).run()
	return why == ""
}

// isPointer is RFC 6901, as a string.
func isPointer(s string) bool {
	if s != "" && s[0] != '/' {
		return false
	}
	for i := range len(s) {
		if s[i] == '~' && (i+1 == len(s) || s[i+1] != '0' && s[i+1] != '1') {
			return false
		}
	}
	return true
}

// isRelativePointer is draft-handrews-relative-json-pointer.
func isRelativePointer(s string) bool {
	n := 0
	for n < len(s) && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	if n == 0 || n > 1 && s[0] == '0' {
		return false
	}
	return s[n:] == "#" || isPointer(s[n:])
}
