package wire

import (
	"reflect"
	"slices"
	"strconv"
	"strings"

	"forge/lib/fail"
)

// Decode fills the struct that dst points to from v, a request: a member the
// struct does not have is refused, naming the nearest it has. Names match
// exactly, by the json tag. Fields may be string, bool, int, int64, Value,
// slices, string-keyed maps, structs, and pointers to them (nil when absent).
// Errors are of kind bad_input and name the place as a JSON Pointer.
func Decode(v Value, dst any) error {
	return decode(v, reflect.ValueOf(dst).Elem(), "", true)
}

// DecodeRecord is Decode for what Forge wrote itself: unknown members are
// skipped, so that an older reader takes a newer file.
func DecodeRecord(v Value, dst any) error {
	return decode(v, reflect.ValueOf(dst).Elem(), "", false)
}

var valueType = reflect.TypeFor[Value]()

func decode(v Value, dst reflect.Value, at string, strict bool) error {
	if dst.Type() == valueType {
		dst.Set(reflect.ValueOf(v))
		return nil
	}
	want := ""
	switch dst.Kind() {
	case reflect.Pointer:
		if v.typ == Null {
			return nil
		}
		dst.Set(reflect.New(dst.Type().Elem()))
		return decode(v, dst.Elem(), at, strict)
	case reflect.String:
		if v.typ == String {
			dst.SetString(v.text)
			return nil
		}
		want = "a string"
	case reflect.Bool:
		if v.typ == Bool {
			dst.SetBool(v.text == "true")
			return nil
		}
		want = "true or false"
	case reflect.Int, reflect.Int64:
		if n, ok := v.Int(); ok {
			dst.SetInt(n)
			return nil
		}
		want = "a whole number"
	case reflect.Slice:
		if v.typ == Array {
			dst.Set(reflect.MakeSlice(dst.Type(), len(v.Items()), len(v.Items())))
			for i, it := range v.Items() {
				if err := decode(it, dst.Index(i), at+"/"+strconv.Itoa(i), strict); err != nil {
					return err
				}
			}
			return nil
		}
		want = "an array"
	case reflect.Map:
		if v.typ == Object {
			dst.Set(reflect.MakeMapWithSize(dst.Type(), len(v.Members())))
			for _, m := range v.Members() {
				el := reflect.New(dst.Type().Elem()).Elem()
				if err := decode(m.Value, el, at+"/"+Escape(m.Name), strict); err != nil {
					return err
				}
				dst.SetMapIndex(reflect.ValueOf(m.Name).Convert(dst.Type().Key()), el)
			}
			return nil
		}
		want = "an object"
	case reflect.Struct:
		if v.typ == Object {
			return decodeStruct(v, dst, at, strict)
		}
		want = "an object"
	}
	return &fail.Error{
		Kind: fail.BadInput, Message: place(at) + ": " + v.typ.String() + ", want " + want,
		Details: map[string]any{"pointer": at, "offset": v.pos},
	}
}

func decodeStruct(v Value, dst reflect.Value, at string, strict bool) error {
	fields := map[string]reflect.Value{}
	names := fieldsOf(dst, fields)
	for _, m := range v.Members() {
		field, ok := fields[m.Name]
		if !ok {
			if !strict {
				continue
			}
			hint := "the members are: " + strings.Join(names, ", ")
			if near := Nearest(m.Name, names); near != "" {
				hint = "write " + strconv.Quote(near) + "; " + hint
			}
			return fail.New(fail.BadInput, hint, "%s: unknown member %q", place(at), m.Name).
				With("pointer", at+"/"+Escape(m.Name)).With("offset", m.Value.pos)
		}
		if err := decode(m.Value, field, at+"/"+Escape(m.Name), strict); err != nil {
			return err
		}
	}
	return nil
}

// fieldsOf fills fields with the members that dst, a struct, has by json tag, its
// embedded structs' too, and returns their names in order.
func fieldsOf(dst reflect.Value, fields map[string]reflect.Value) (names []string) {
	for i := range dst.NumField() {
		f := dst.Type().Field(i)
		if f.Anonymous {
			names = append(names, fieldsOf(dst.Field(i), fields)...)
			continue
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name != "" && name != "-" {
			fields[name] = dst.Field(i)
			names = append(names, name)
		}
	}
	return names
}

func place(at string) string {
	if at == "" {
		return "the value"
	}
	return at
}

// Escape returns name as one step of a JSON Pointer (RFC 6901).
func Escape(name string) string {
	return strings.ReplaceAll(strings.ReplaceAll(name, "~", "~0"), "/", "~1")
}

// Nearest returns the name that s was likely meant to be: the same but for
// case, or within an edit distance of a third of its length (at least 1, and
// not all of it); "" when none is near.
func Nearest(s string, names []string) string {
	best, dist := "", max(1, len(s)/3)+1
	for _, n := range slices.Sorted(slices.Values(names)) {
		if strings.EqualFold(n, s) {
			return n
		}
		if len(s) > 64 || len(n) > 64 {
			continue
		}
		if d := distance(s, n); d < dist && d < len(s) {
			best, dist = n, d
		}
	}
	return best
}

// distance is the optimal string alignment distance in bytes: a swap of two
// neighbours counts once.
func distance(a, b string) int {
	d := make([][]int, len(a)+1)
	for i := range d {
		d[i] = make([]int, len(b)+1)
		d[i][0] = i
	}
	for j := range d[0] {
		d[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			d[i][j] = min(d[i-1][j]+1, d[i][j-1]+1, d[i-1][j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d[i][j] = min(d[i][j], d[i-2][j-2]+1)
			}
		}
	}
	return d[len(a)][len(b)]
}
