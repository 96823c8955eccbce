package schema

import (
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"forge/lib/fail"
	"forge/lib/wire"
)

// The bounds on a schema: notes of DESIGN §6, forge(7).
const (
	maxBytes     = 256 << 10
	maxDepth     = 64
	maxPositions = 5000
	maxPaths     = 20000 // evaluations at one instance location
	maxName      = 1 << 10
	maxNames     = 5000 // in required and the like, all in all
	maxPattern   = 64 << 10
	maxWork      = 8 << 20 // see spend
)

// A node is one schema position of the author's document.
type node struct {
	at   string // JSON Pointer from the document's root
	v    wire.Value
	base *url.URL
	res  *node // the position at which base was set

	parent *node
	via    string // the keyword of parent that holds it
	kids   map[string][]edge
	props  map[string]*node // the kids under properties
	ref    *node            // where its $ref leads
	types  int              // that it lets through, at most

	id       int               // its place in the document
	literals map[float64]*lits // the numbers of its const and enum
	patterns []*regexp.Regexp  // those of the kids under patternProperties, once compiled
	sizes    []int             // their instructions
}

// An edge leads from a position to a schema within it.
type edge struct {
	word string // the keyword
	name string // the property, pattern or name under it
	to   *node
}

func (n *node) get(word string) (wire.Value, bool) { return n.v.Get(word) }

func (n *node) has(word string) bool {
	_, ok := n.v.Get(word)
	return ok
}

// under returns the schemas below a keyword.
func (n *node) under(word string) []edge { return n.kids[word] }

// compile readies the patterns of patternProperties.
func (n *node) compile(d *document) error {
	if n.patterns != nil {
		return nil
	}
	for _, e := range n.under("patternProperties") {
		p, err := d.propertyPattern(n, e.name)
		if err != nil {
			return err
		}
		n.patterns = append(n.patterns, regexp.MustCompile(p.re2))
		n.sizes = append(n.sizes, p.size)
	}
	return nil
}

// all calls see with each schema below n, in no order that matters.
func (n *node) all(see func(edge)) {
	for _, word := range slices.Sorted(maps.Keys(n.kids)) {
		for _, e := range n.kids[word] {
			see(e)
		}
	}
}

// A document is the author's schema with all its positions found, each keyword
// known to its dialect, and each $ref led to its position.
type document struct {
	nodes    []*node // in document order, the root first
	byAt     map[string]*node
	byURI    map[string]*node
	dialect  dialect
	patterns map[string]lowPattern
	program  int            // the size of all patterns
	ranges   int            // of code points, in their classes
	dynamic  map[string]int // how many positions have a $dynamicAnchor

	unevaluated bool // some position has one of these keywords
	contains    bool

	listing int // names in required and the like
	work    int
}

// spend counts bytes that are kept, or steps of the like cost, against what one
// schema may ask of the machine. It counts work, not time, so that a schema is
// taken or refused the same each time.
func (d *document) spend(n *node, word string, cost int) error {
	if d.work += cost; d.work > maxWork {
		return d.refuse(n.at, word, "split the tool, or shorten names and patterns", "up to here the schema is too much work")
	}
	return nil
}

func (d *document) root() *node { return d.nodes[0] }

// refuse is an error of kind schema_unsupported about keyword word of the
// position at.
func (d *document) refuse(at, word, hint, format string, args ...any) error {
	place := at
	if word != "" {
		place += "/" + wire.Escape(word)
	}
	e := fail.New(fail.SchemaUnsupported, hint, "schema: %s: "+format, append([]any{where(place)}, args...)...)
	return e.With("pointer", place).With("keyword", word).With("dialect", d.dialect.String())
}

// where prints a pointer for a message.
func where(at string) string {
	if at == "" {
		return "the root"
	}
	return at
}

// ownBase is the base URI of a schema that does not name itself.
const ownBase = "json-schema:///"

// index finds every position of the author's schema.
func index(author wire.Value) (*document, error) {
	d := &document{byAt: map[string]*node{}, byURI: map[string]*node{}, dialect: draft2020, patterns: map[string]lowPattern{}, dynamic: map[string]int{}}
	if n := len(author.Bytes()); n > maxBytes {
		return nil, d.refuse("", "", "split the tool, or take data out of the schema",
			"%d bytes, at most %d", n, maxBytes)
	}
	if err := d.bounds(author, nil); err != nil {
		return nil, err
	}
	if err := d.detect(author); err != nil {
		return nil, err
	}
	base, _ := url.Parse(ownBase)
	root := &node{v: author, base: base}
	root.res = root
	if err := d.add(root); err != nil {
		return nil, err
	}
	for _, n := range d.nodes {
		if err := d.resolve(n); err != nil {
			return nil, err
		}
	}
	if err := d.cycles(); err != nil {
		return nil, err
	}
	d.typing()
	return d, nil
}

// bounds holds what the engine and the tools that read the value could not
// stand, wherever it stands in the schema.
func (d *document) bounds(v wire.Value, path []string) error {
	refuse := func(hint, format string, args ...any) error {
		return d.refuse(pointer(path), "", hint, format, args...)
	}
	if len(path) >= maxDepth {
		return refuse("flatten the schema", "nested deeper than %d", maxDepth)
	}
	switch v.Type() {
	case wire.Number:
		if why := badNumber(v.Text()); why != "" {
			return refuse("write it as a string, or leave the limit out", "%s", why)
		}
	case wire.String:
		if strings.ContainsRune(v.Text(), 0) {
			return refuse("leave it out", "U+0000 in a string")
		}
		if !utf8.ValidString(v.Text()) {
			return refuse("write UTF-8", "invalid UTF-8")
		}
	case wire.Array:
		for i, it := range v.Items() {
			if err := d.bounds(it, append(path, strconv.Itoa(i))); err != nil {
				return err
			}
		}
	case wire.Object:
		for _, m := range v.Members() {
			if err := d.bounds(m.Value, append(path, m.Name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// badNumber says why a literal is out of the bounds of DESIGN §3; "" if it is
// not.
func badNumber(lit string) string {
	if len(lit) > 40 {
		return "number of " + strconv.Itoa(len(lit)) + " characters, at most 40"
	}
	if i := strings.IndexAny(lit, "eE"); i >= 0 {
		if e, err := strconv.Atoi(strings.TrimPrefix(lit[i+1:], "+")); err != nil || e > 308 || e < -308 {
			return "number " + lit + ": exponent beyond 308"
		}
	}
	if _, err := strconv.ParseFloat(lit, 64); err != nil {
		return "number " + lit + " is out of range"
	}
	return ""
}

// detect sets the dialect: the one of $schema, else 2020-12. But a schema that
// writes items as a list is none of 2020-12: it is of draft-07, if it says nothing
// newer, or of 2019-09, if it says nothing that is not in that.
func (d *document) detect(author wire.Value) error {
	if s, ok := author.Get("$schema"); ok {
		dia, known := dialects[strings.TrimSuffix(s.Text(), "#")]
		if !known || s.Type() != wire.String {
			return d.refuse("", "$schema", dialectHint(s), "unknown dialect %s", short(s))
		}
		d.dialect = dia
		return nil
	}
	tuples, newer, known := false, false, true
	scan(author, func(v wire.Value) {
		for _, m := range v.Members() {
			k, ok := keywords[m.Name]
			newer = newer || ok && k.from >= draft2019
			known = known && (!ok || k.in(draft2019))
			tuples = tuples || m.Name == "items" && m.Value.Type() == wire.Array
		}
	})
	switch {
	case tuples && !newer:
		d.dialect = draft7
	case tuples && known:
		d.dialect = draft2019
	}
	return nil
}

// scan calls see for every object at a schema position, whatever the dialect.
func scan(v wire.Value, see func(wire.Value)) {
	if v.Type() != wire.Object {
		return
	}
	see(v)
	for _, m := range v.Members() {
		switch keywords[m.Name].holds {
		case one:
			scan(m.Value, see)
		case several:
			for _, it := range m.Value.Items() {
				scan(it, see)
			}
		case named, mixed:
			for _, it := range m.Value.Members() {
				scan(it.Value, see)
			}
		case either:
			scan(m.Value, see)
			for _, it := range m.Value.Items() {
				scan(it, see)
			}
		}
	}
}

// add takes in a position and what lies below it.
func (d *document) add(n *node) error {
	n.id = len(d.nodes)
	d.nodes = append(d.nodes, n)
	d.byAt[n.at] = n
	if len(d.nodes) > maxPositions {
		return d.refuse("", "", "split the tool", "more than %d schemas", maxPositions)
	}
	if err := d.spend(n, "", len(n.at)); err != nil {
		return err
	}
	if n.v.Type() == wire.Bool {
		if d.dialect == draft4 && n.via != "additionalProperties" && n.via != "additionalItems" {
			return d.refuse(n.at, "", `write {} for true and {"not":{}} for false`, "a boolean is no schema in draft-04")
		}
		return nil
	}
	if n.v.Type() != wire.Object {
		return d.refuse(n.at, "", d.noSchema(n), "a schema is an object, not %s", short(n.v))
	}
	if err := d.identify(n); err != nil {
		return err
	}
	ignored := n.has("$ref") && d.dialect <= draft7
	for _, m := range n.v.Members() {
		k, err := d.known(n, m)
		if err != nil {
			return err
		}
		if ignored && m.Name != "$ref" && m.Name != "$id" && m.Name != "id" && !k.annotation {
			return d.refuse(n.at, m.Name, `write "allOf":[{"$ref":…}] beside it, or declare 2020-12`,
				"beside $ref, %s ignores it", d.dialect)
		}
		if err := d.listed(n, m); err != nil {
			return err
		}
		d.contains = d.contains || m.Name == "contains"
		d.unevaluated = d.unevaluated || strings.HasPrefix(m.Name, "unevaluated")
		if err := d.below(n, m, k.holds); err != nil {
			return err
		}
	}
	return nil
}

// listed counts the names in required, dependentRequired and dependencies.
func (d *document) listed(n *node, m wire.Member) error {
	switch m.Name {
	case "required":
		d.listing += len(m.Value.Items())
	case "dependentRequired", "dependencies":
		for _, dep := range m.Value.Members() {
			d.listing += 1 + len(dep.Value.Items())
		}
	}
	if d.listing > maxNames {
		return d.refuse(n.at, m.Name, "split the tool", "more than %d names are listed in the schema", maxNames)
	}
	return nil
}

// known finds the keyword in the table, or says what to write.
func (d *document) known(n *node, m wire.Member) (keyword, error) {
	k, ok := keywords[m.Name]
	switch {
	case !ok:
		return k, d.refuse(n.at, m.Name, d.unknown(n, m), "unknown keyword %q", m.Name)
	case d.dialect < k.from:
		hint := instead[m.Name]
		if hint == "" {
			hint = `declare "$schema":"https://json-schema.org/draft/2020-12/schema", or leave "$schema" out`
		}
		return k, d.refuse(n.at, m.Name, hint, "keyword %q is newer than %s", m.Name, d.dialect)
	case d.dialect > k.to:
		return k, d.refuse(n.at, m.Name, instead[m.Name], "keyword %q is not in %s", m.Name, d.dialect)
	case m.Name == "$schema" && n.at != "":
		if dia, ok := dialects[strings.TrimSuffix(m.Value.Text(), "#")]; !ok || dia != d.dialect || m.Value.Type() != wire.String {
			return k, d.refuse(n.at, m.Name, "write one dialect for the whole", "another dialect within %s", d.dialect)
		}
	case annotationTypes[m.Name] != wire.Null && annotationTypes[m.Name] != m.Value.Type():
		want := map[wire.Type]string{wire.String: "a string", wire.Bool: "true or false", wire.Array: "a list"}[annotationTypes[m.Name]]
		return k, d.refuse(n.at, m.Name, "write "+want+", or leave it out", "%s, want %s", short(m.Value), want)
	case m.Name == "discriminator" && !n.has("oneOf") && !n.has("anyOf"):
		return k, d.refuse(n.at, m.Name, `write "oneOf" beside it, or leave it out`, "discriminator without oneOf or anyOf")
	}
	return k, nil
}

// below adds the schemas that a keyword holds.
func (d *document) below(n *node, m wire.Member, h holds) error {
	at := n.at + "/" + wire.Escape(m.Name)
	child := func(v wire.Value, at, name string) error {
		c := &node{at: at, v: v, base: n.base, res: n.res, parent: n, via: m.Name}
		if n.kids == nil {
			n.kids = map[string][]edge{}
		}
		n.kids[m.Name] = append(n.kids[m.Name], edge{m.Name, name, c})
		if m.Name == "properties" {
			if n.props == nil {
				n.props = map[string]*node{}
			}
			n.props[name] = c
		}
		return d.add(c)
	}
	listed := func() error {
		if len(m.Value.Items()) == 0 {
			return d.refuse(n.at, m.Name, "leave it out, or write a schema into it", "an empty list checks nothing")
		}
		for i, it := range m.Value.Items() {
			if err := child(it, at+"/"+strconv.Itoa(i), ""); err != nil {
				return err
			}
		}
		return nil
	}
	switch h {
	case one:
		return child(m.Value, at, "")
	case several:
		if m.Value.Type() != wire.Array {
			return d.refuse(n.at, m.Name, "write a list of schemas", "%s, want a list", m.Value.Type())
		}
		return listed()
	case either:
		if m.Value.Type() != wire.Array {
			return child(m.Value, at, "")
		}
		if d.dialect >= draft2020 {
			return d.refuse(n.at, m.Name, `write "prefixItems" for the list and "items" for the rest`,
				"a list of schemas is not in %s", d.dialect)
		}
		return listed()
	case named, mixed:
		if m.Value.Type() != wire.Object {
			return d.refuse(n.at, m.Name, `write an object, as {"name":{"type":"string"}}`, "%s, want an object", m.Value.Type())
		}
		for _, c := range m.Value.Members() {
			if h == mixed && c.Value.Type() == wire.Array {
				continue
			}
			if len(c.Name) > maxName {
				return d.refuse(n.at, m.Name, "shorten it", "a name of %d bytes, at most %d", len(c.Name), maxName)
			}
			if err := child(c.Value, at+"/"+wire.Escape(c.Name), c.Name); err != nil {
				return err
			}
		}
	}
	return nil
}

// identify notes the names a position gives itself.
func (d *document) identify(n *node) error {
	word := "$id"
	if d.dialect == draft4 {
		word = "id"
	}
	id, ok := n.get(word)
	// Before 2019-09 everything beside a $ref is ignored, a name too.
	if ok && !(n.has("$ref") && d.dialect <= draft7) {
		if id.Type() != wire.String {
			return d.refuse(n.at, word, "write a URI, or leave it out", "%s, want a string", id.Type())
		}
		u, err := url.Parse(id.Text())
		if err != nil || !isURIReference(id.Text()) {
			return d.refuse(n.at, word, "write a URI, or leave it out", "%s is no URI", short(id))
		}
		switch {
		case u.Fragment == "":
			u.Fragment, u.RawFragment = "", ""
			n.base, n.res = n.base.ResolveReference(u), n
			if err := d.spend(n, word, 4*len(n.base.Path)); err != nil {
				return err
			}
		case d.dialect <= draft7 && strings.HasPrefix(id.Text(), "#"):
			if err := d.name(n, word, n.base.String()+"#"+u.Fragment); err != nil {
				return err
			}
		default:
			return d.refuse(n.at, word, "leave the fragment out", "%s has a fragment", short(id))
		}
	}
	if n.res == n {
		if err := d.name(n, word, n.base.String()); err != nil {
			return err
		}
	}
	for _, word := range []string{"$anchor", "$dynamicAnchor"} {
		a, ok := n.get(word)
		if !ok || d.dialect < draft2019 {
			continue
		}
		if a.Type() != wire.String || !plainName(a.Text()) || d.dialect == draft2019 && a.Text()[0] == '_' ||
			d.dialect == draft2020 && strings.Contains(a.Text(), ":") {
			return d.refuse(n.at, word, `write a plain name, as "node"`, "%s is no name", short(a))
		}
		if err := d.name(n, word, n.base.String()+"#"+a.Text()); err != nil {
			return err
		}
		if word == "$dynamicAnchor" {
			d.dynamic[a.Text()]++
		}
	}
	if a, ok := n.get("$recursiveAnchor"); ok && d.dialect == draft2019 {
		if a.Type() != wire.Bool {
			return d.refuse(n.at, "$recursiveAnchor", "write true", "%s, want true or false", short(a))
		}
		if n.res == n && a.Text() == "true" {
			d.dynamic[recursive]++
		}
	}
	return nil
}

// recursive stands for $recursiveAnchor among the names of $dynamicAnchor.
const recursive = "#"

func plainName(s string) bool {
	for i := range len(s) {
		c := s[i]
		alpha := c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !alpha && (i == 0 || strings.IndexByte("-.:0123456789", c) < 0) {
			return false
		}
	}
	return s != ""
}

func (d *document) name(n *node, word, uri string) error {
	if other, ok := d.byURI[uri]; ok && other != n {
		return d.refuse(n.at, word, "write each name once", "%q names two schemas", strings.TrimPrefix(uri, ownBase))
	}
	d.byURI[uri] = n
	return nil
}

// resolve leads a position's $ref to the position it means. A dynamic one means
// that too, as long as no other position has its name: else where it leads
// depends on the way there.
func (d *document) resolve(n *node) (err error) {
	found := ""
	for _, word := range []string{"$ref", "$dynamicRef", "$recursiveRef"} {
		r, ok := n.get(word)
		if n.v.Type() != wire.Object || !ok {
			continue
		}
		if found != "" {
			return d.refuse(n.at, word, `write one of them under "allOf"`, "beside %s", found)
		}
		found = word
		if n.ref, err = d.lead(n, word, r); err != nil {
			return err
		}
		name := ""
		switch anchor, _ := n.ref.get("$dynamicAnchor"); word {
		case "$dynamicRef":
			if u, err := url.Parse(r.Text()); err == nil && u.Fragment == anchor.Text() { // "#no%64e" is "#node"
				name = anchor.Text()
			}
		case "$recursiveRef":
			if a, _ := n.ref.get("$recursiveAnchor"); a.Text() == "true" {
				name = recursive
			}
		}
		if name != "" && d.dynamic[name] > 1 {
			return d.refuse(n.at, word, `write "$ref" to the definition itself`,
				"%d schemas have the anchor: which is meant depends on the way there", d.dynamic[name])
		}
	}
	return nil
}

// lead returns the position that a reference of n means.
func (d *document) lead(n *node, word string, r wire.Value) (*node, error) {
	if r.Type() != wire.String {
		return nil, d.refuse(n.at, word, `write "#/$defs/NAME"`, "%s, want a string", r.Type())
	}
	if word == "$recursiveRef" && r.Text() != "#" {
		return nil, d.refuse(n.at, word, `write "#", or "$ref"`, "%s, want \"#\"", short(r))
	}
	u, err := url.Parse(r.Text())
	if err != nil {
		return nil, d.refuse(n.at, word, `write "#/$defs/NAME"`, "%s is no reference", short(r))
	}
	if err := d.spend(n, word, len(n.base.Path)+len(u.Path)); err != nil {
		return nil, err
	}
	full := n.base.ResolveReference(u)
	frag := full.Fragment
	full.Fragment, full.RawFragment = "", ""
	res, ok := d.byURI[full.String()]
	if !ok {
		if near := nearestRef(r.Text(), d.definitions()); near != "" && u.Host == "" {
			return nil, d.refuse(n.at, word, "write "+strconv.Quote(near), "%s points at no schema of this document", short(r))
		}
		return nil, d.refuse(n.at, word, `copy the schema into "$defs" and write "#/$defs/NAME"`,
			"%s is outside this document; nothing is fetched", short(r))
	}
	to := res
	switch {
	case strings.HasPrefix(frag, "/"):
		to = d.byAt[res.at+frag]
	case frag != "":
		to = d.byURI[full.String()+"#"+frag]
	}
	if to == nil {
		hint := `write "#/$defs/NAME", the place of a schema in this document`
		if near := nearestRef(r.Text(), d.definitions()); near != "" {
			hint = "write " + strconv.Quote(near)
		}
		return nil, d.refuse(n.at, word, hint, "%s points at no schema of this document", short(r))
	}
	return to, nil
}

// definitions lists what a $ref usually means.
func (d *document) definitions() []string {
	var ats []string
	for _, n := range d.nodes {
		if n.via == "$defs" || n.via == "definitions" {
			ats = append(ats, "#"+n.at)
		}
	}
	return ats
}

// nearestRef also finds the definition that a bare name means.
func nearestRef(s string, ats []string) string {
	slices.Sort(ats)
	last := s[strings.LastIndexAny(s, "/#")+1:]
	for _, at := range ats {
		if strings.EqualFold(at[strings.LastIndexByte(at, '/')+1:], last) {
			return at
		}
	}
	return wire.Nearest(s, ats)
}

// inPlace are the keywords whose schemas look at the same value.
var inPlace = []string{"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependencies", "dependentSchemas"}

// cycles refuses a schema that asks itself about the same value, which no
// validator survives, and one that asks too often.
func (d *document) cycles() error {
	paths := map[*node]int{} // -1 while on the way
	var count func(n *node) (int, error)
	count = func(n *node) (int, error) {
		switch c := paths[n]; {
		case c > 0:
			return c, nil
		case c < 0:
			return 0, d.refuse(n.at, "", "step into a property or an item before you refer back",
				"a cycle of $ref that never looks further into the value")
		}
		paths[n] = -1
		sum := 1
		visit := func(to *node) error {
			c, err := count(to)
			if sum += c; err == nil && sum > maxPaths {
				err = d.refuse(n.at, "", "say each alternative once",
					"one value would be checked more than %d times", maxPaths)
			}
			return err
		}
		if n.ref != nil {
			if err := visit(n.ref); err != nil {
				return 0, err
			}
		}
		for _, word := range inPlace {
			for _, e := range n.kids[word] {
				if err := visit(e.to); err != nil {
					return 0, err
				}
			}
		}
		paths[n] = sum
		return sum, nil
	}
	for _, n := range d.nodes {
		if _, err := count(n); err != nil {
			return err
		}
	}
	return nil
}

// short prints a value for a message, at most 60 bytes of it.
func short(v wire.Value) string {
	switch v.Type() {
	case wire.Object:
		return "an object"
	case wire.Array:
		return "a list"
	}
	s := v.String()
	if len(s) > 60 {
		cut := 57
		for !utf8.RuneStart(s[cut]) {
			cut--
		}
		s = s[:cut] + "…"
		if v.Type() == wire.String {
			s += `"`
		}
	}
	return s
}
