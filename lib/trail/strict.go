package trail

import (
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"forge/lib/chain"
)

// strictJSON holds a payload to RFC 7493: UTF-8, and no name twice in an object.
func strictJSON(payload []byte) chain.Reason {
	v := jsontext.Value(payload)
	switch {
	case v.IsValid():
		return ""
	case !utf8.Valid(payload):
		return chain.UTF8
	case v.IsValid(jsontext.AllowDuplicateNames(true)):
		return chain.Dupkey
	}
	return chain.JSON
}
