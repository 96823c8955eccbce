package schema

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"forge/lib/fail"
	"forge/lib/wire"
)

// seeds are the cases that parse, and the mistakes.
func seeds(f *testing.F, add func(schema, value string)) {
	var rows []generated
	text, err := os.ReadFile("testdata/generators/mistakes.json")
	if err == nil {
		err = json.Unmarshal(text, &rows)
	}
	if err != nil {
		f.Fatal(err)
	}
	for _, r := range rows {
		add(string(r.Schema), string(r.Fail))
	}
	if text, err = os.ReadFile("testdata/cases.json"); err != nil {
		f.Fatal(err)
	}
	var cases []struct{ Schema, Instance string }
	if err := json.Unmarshal(text, &cases); err != nil {
		f.Fatal(err)
	}
	for _, c := range cases {
		if len(c.Schema)+len(c.Instance) < 600 {
			add(c.Schema, c.Instance)
		}
	}
}

// faulty says whether an error is one that no input should be able to cause.
func faulty(err error) bool {
	return err != nil && (strings.Contains(err.Error(), "unexpected fault") || strings.Contains(err.Error(), "the validator does not take it"))
}

// FuzzLower: no schema is a fault, what lowers compiles, and it lowers to the
// same bytes each time.
func FuzzLower(f *testing.F) {
	seeds(f, func(schema, _ string) { f.Add([]byte(schema)) })
	f.Fuzz(func(t *testing.T, text []byte) {
		author, err := wire.Parse(text, wire.Instance)
		if err != nil {
			return
		}
		lowered, err := Lower(author)
		if err != nil {
			if faulty(err) || fail.KindOf(err) != fail.SchemaUnsupported {
				t.Fatal(err)
			}
			return
		}
		if _, err := Compile(author, lowered); err != nil {
			t.Fatalf("lowers to %s, but: %v", lowered, err)
		}
		if again, _ := Lower(author); again.String() != lowered.String() {
			t.Fatalf("lowers to %s and to %s", lowered, again)
		}
		if shown, reason := Wire(author); reason == "" {
			if _, err := Lower(shown); err != nil {
				t.Fatalf("shown as %s, but: %v", shown, err)
			}
		} else if strings.Contains(reason, "unexpected fault") {
			t.Fatal(reason)
		}
	})
}

// FuzzCheck: no value is a fault; what is allowed stays allowed when it is
// normalized; what is kept back stands in no error.
func FuzzCheck(f *testing.F) {
	seeds(f, func(schema, value string) { f.Add([]byte(schema), []byte(value)) })
	f.Fuzz(func(t *testing.T, text, value []byte) {
		author, err := wire.Parse(text, wire.Instance)
		if err != nil {
			return
		}
		v, err := wire.Parse(value, wire.Instance)
		if err != nil {
			return
		}
		lowered, err := Lower(author)
		if err != nil {
			return
		}
		s, err := Compile(author, lowered)
		if err != nil {
			t.Fatal(err)
		}
		err = s.Check(v)
		if err != nil && (faulty(err) || fail.KindOf(err) != fail.ValidationFailed) {
			t.Fatal(err)
		}
		norm := s.Normalize(v)
		if canonical(norm) != canonical(v) {
			t.Fatalf("normalized to %s", norm)
		}
		if err == nil {
			if err := s.Check(norm); err != nil {
				t.Fatalf("allowed, but not as %s: %v", norm, err)
			}
			s.Binds(v)
		}
		_, secrets := s.Redact(v)
		if err != nil {
			details, _ := wire.Encode(fail.Of(err).Details)
			for _, secret := range secrets {
				// What the schema says itself may stand there.
				if len(secret) > 5 && !strings.Contains(string(text), secret) && !strings.Contains(s.plainRest(v), secret) &&
					strings.Contains(string(details)+err.Error(), secret) {
					t.Fatalf("%q is kept back, but: %s", secret, details)
				}
			}
		}
	})
}

// plainRest is what of v is not kept back.
func (s *Schema) plainRest(v wire.Value) string {
	rest, _ := s.Redact(v)
	return rest.String()
}
