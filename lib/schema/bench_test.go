package schema

import (
	"testing"
)

const medium = `{"type":"object","properties":{"name":{"type":"string","minLength":1,"maxLength":64},"age":{"type":"integer","minimum":0,"maximum":150},
"email":{"type":"string","format":"email"},"tags":{"type":"array","items":{"type":"string"},"uniqueItems":true},"mode":{"enum":["fast","slow"]},
"path":{"type":"string","x-bind":"ro"},"token":{"type":"string","x-redact":true},"ratio":{"type":"number"},"when":{"type":"string","format":"date-time"},
"shape":{"oneOf":[{"$ref":"#/$defs/circle"},{"$ref":"#/$defs/square"}]}},"required":["name","mode"],"additionalProperties":false,
"$defs":{"circle":{"type":"object","properties":{"kind":{"const":"circle"},"r":{"type":"number"}},"required":["kind","r"],"additionalProperties":false},
"square":{"type":"object","properties":{"kind":{"const":"square"},"side":{"type":"number"}},"required":["kind","side"],"additionalProperties":false}}}`

const mediumValue = `{"name":"ann","age":30,"email":"ann@example.org","tags":["a","b"],"mode":"fast","path":"/data/a","token":"t","ratio":0.5,"when":"2026-11-30T19:15:00Z","shape":{"kind":"square","side":2}}`

func BenchmarkLower(b *testing.B) {
	author := parse(b, medium)
	for b.Loop() {
		if _, err := Lower(author); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCompile(b *testing.B) {
	author := parse(b, medium)
	lowered, err := Lower(author)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := Compile(author, lowered); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCheck(b *testing.B) {
	s, v := ready(b, medium), parse(b, mediumValue)
	for b.Loop() {
		if err := s.Check(v); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAnnotations(b *testing.B) {
	s, v := ready(b, medium), parse(b, mediumValue)
	for b.Loop() {
		v = s.Normalize(v)
		s.Binds(v)
		s.Redact(v)
	}
}
