package wire

import (
	"bytes"
	"encoding/json"

	"forge/lib/fail"
)

// Envelope is the one object a command prints.
//
//	{"ok":true,"data":{…},"meta":{…}}
//	{"ok":false,"error":{"kind":"…","message":"…","hint":"…","details":{…}},"meta":{…}}
type Envelope struct {
	OK    bool
	Data  any         // on success; nil prints {}
	Error *fail.Error // on failure
	Meta  any         // nil prints {}
	Extra []Member    // a tool's own further members, printed after ours
}

type errorBody struct {
	Kind    fail.Kind      `json:"kind"`
	Message string         `json:"message"`
	Hint    string         `json:"hint,omitempty"`
	Details map[string]any `json:"details,omitempty"`
}

// MarshalJSON prints the members in the order shown above.
func (e Envelope) MarshalJSON() ([]byte, error) {
	empty := struct{}{}
	out := []byte(`{"ok":`)
	put := func(name string, x any) error {
		if x == nil {
			x = empty
		}
		b, err := Encode(x)
		if err != nil {
			return err
		}
		out = append(append(out, `,"`+name+`":`...), b...)
		return nil
	}
	var err error
	if e.OK {
		out = append(out, "true"...)
		err = put("data", e.Data)
	} else {
		out = append(out, "false"...)
		err = put("error", errorBody{e.Error.Kind, e.Error.Message, e.Error.Hint, e.Error.Details})
	}
	if err == nil {
		err = put("meta", e.Meta)
	}
	if err != nil {
		return nil, err
	}
	for _, m := range e.Extra {
		out = append(appendString(append(out, ','), m.Name), ':')
		out = m.Value.Append(out)
	}
	return append(out, '}'), nil
}

// Encode returns x as compact JSON, with <, > and & as they are.
func Encode(x any) ([]byte, error) {
	if v, ok := x.(Value); ok {
		return v.Bytes(), nil
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(x); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}
