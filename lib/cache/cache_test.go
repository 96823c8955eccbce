package cache

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"forge/lib/store"
	"forge/lib/wire"
)

var start = time.Date(2026, 11, 30, 19, 15, 0, 0, time.UTC)

func fresh(t *testing.T) (*store.Store, *time.Time) {
	t.Helper()
	st, err := store.Open(filepath.Join(t.TempDir(), "home"))
	if err != nil {
		t.Fatal(err)
	}
	now := start
	st.Now = func() time.Time { return now }
	return st, &now
}

func value(t *testing.T, s string) wire.Value {
	t.Helper()
	v, err := wire.Parse([]byte(s), wire.Output)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func hashed(t *testing.T, path, text string) File {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	h, err := Hash(t.Context(), path, f)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// Each part counts, and no part can pass for another.
func TestKey(t *testing.T) {
	dir := t.TempDir()
	a, b := hashed(t, dir+"/a", "1"), hashed(t, dir+"/b", "1")
	a2 := hashed(t, dir+"/a", "2")
	seen := map[string]string{}
	for name, key := range map[string]string{
		"plain":            Key("d", []byte("in"), nil),
		"another tool":     Key("e", []byte("in"), nil),
		"another input":    Key("d", []byte("in "), nil),
		"shifted":          Key("di", []byte("n"), nil),
		"no input":         Key("din", nil, nil),
		"a file":           Key("d", []byte("in"), []File{a}),
		"changed":          Key("d", []byte("in"), []File{a2}),
		"another path":     Key("d", []byte("in"), []File{b}),
		"two":              Key("d", []byte("in"), []File{a, b}),
		"two in order":     Key("d", []byte("in"), []File{b, a}),
		"twice":            Key("d", []byte("in"), []File{a, a}),
		"its path as text": Key("d", []byte("in"+a.Path), nil),
	} {
		if len(key) != 64 || strings.Trim(key, "0123456789abcdef") != "" {
			t.Errorf("%s: %q", name, key)
		}
		if other, ok := seen[key]; ok {
			t.Errorf("%s has the key of %s", name, other)
		}
		seen[key] = name
	}
	if Key("d", []byte("in"), []File{a}) != Key("d", []byte("in"), []File{hashed(t, dir+"/a", "1")}) {
		t.Error("the same call has two keys")
	}
}

func TestGetPut(t *testing.T) {
	st, now := fresh(t)
	key, other := Key("d", nil, nil), Key("e", nil, nil)
	envelope := `{"ok":true,"data":[1.50,"é",123456789012345678901234567890],"extra":null}`
	if Get(st, key) != nil {
		t.Error("an entry in an empty cache")
	}
	if stored, err := Put(st, key, Entry{"run", value(t, envelope)}); !stored || err != nil {
		t.Fatal(stored, err)
	}
	path := st.Cache(key)
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"format":"forge.cache/1","key":"` + key + `","run":"run","stored":"2026-11-30T19:15:00Z","envelope":` + envelope + `,"digest":"`; !strings.HasPrefix(string(good), want) {
		t.Errorf("%s", good)
	}
	hit := func() bool {
		e := Get(st, key)
		if e != nil && (e.Run != "run" || e.Envelope.String() != envelope) {
			t.Errorf("%+v", e)
		}
		return e != nil
	}
	for age, want := range map[time.Duration]bool{
		0: true, MaxAge: true, MaxAge + time.Second: false, -time.Minute: true, -time.Minute - time.Second: false, 24 * time.Hour: true,
	} {
		*now = start.Add(age)
		if hit() != want {
			t.Errorf("after %s: %v", age, !want)
		}
	}
	*now = start

	// One byte, wherever it is.
	for i := range good {
		bad := bytes.Clone(good)
		bad[i] ^= 1
		os.WriteFile(path, bad, 0o600)
		if Get(st, key) != nil {
			t.Fatalf("taken with byte %d changed", i)
		}
	}
	// Resealed, it must still be of this key and format.
	for _, edit := range [][2]string{
		{`"key":"` + key, `"key":"` + other}, {"forge.cache/1", "forge.cache/2"}, {`"stored":"2026`, `"stored":"never`},
	} {
		line, _ := wire.Seal(value(t, strings.Replace(string(good[:len(good)-78]), edit[0], edit[1], 1)+"}"))
		os.WriteFile(path, line, 0o600)
		if Get(st, key) != nil {
			t.Errorf("taken with %s", edit[1])
		}
	}
	for name, text := range map[string]string{"empty": "", "cut": string(good[:len(good)-10]), "garbage": "x\n", "more": string(good) + "\n"} {
		os.WriteFile(path, []byte(text), 0o600)
		if Get(st, key) != nil {
			t.Errorf("taken: %s", name)
		}
	}
	// An entry under another's name, or through a link, is none.
	os.WriteFile(path, good, 0o600)
	if err := errors.Join(os.MkdirAll(filepath.Dir(st.Cache(other)), 0o700), os.WriteFile(st.Cache(other), good, 0o600)); err != nil {
		t.Fatal(err)
	}
	if Get(st, other) != nil {
		t.Error("an entry of another key")
	}
	os.Rename(path, path+".moved")
	os.Symlink(path+".moved", path)
	if Get(st, key) != nil {
		t.Error("an entry through a link")
	}
}

func TestPutLarge(t *testing.T) {
	st, _ := fresh(t)
	key := Key("d", nil, nil)
	big := func(n int) wire.Value { return value(t, `{"ok":true,"data":"`+strings.Repeat("x", n)+`"}`) }
	if stored, err := Put(st, key, Entry{"run", big(MaxBytes)}); stored || err != nil {
		t.Errorf("%v %v", stored, err)
	}
	if _, err := os.Lstat(st.Root); err == nil {
		t.Error("something was written")
	}
	if stored, err := Put(st, key, Entry{"run", big(MaxBytes - 400)}); !stored || err != nil || Get(st, key) == nil {
		t.Errorf("%v %v", stored, err)
	}
	// Where it cannot be written, nothing is stored, and that is all.
	blocked := Key("x", nil, nil)
	os.MkdirAll(filepath.Dir(filepath.Dir(st.Cache(blocked))), 0o700)
	os.WriteFile(filepath.Dir(st.Cache(blocked)), nil, 0o600)
	if stored, err := Put(st, blocked, Entry{"run", big(1)}); stored || err == nil {
		t.Errorf("%v %v", stored, err)
	}
}

func TestUnchanged(t *testing.T) {
	path := t.TempDir() + "/f"
	for name, change := range map[string]func(){
		"written":  func() { os.WriteFile(path, []byte("2"), 0o600) },
		"longer":   func() { os.WriteFile(path, []byte("11"), 0o600) },
		"replaced": func() { os.WriteFile(path+"2", []byte("1"), 0o600); os.Rename(path+"2", path) },
		"gone":     func() { os.Remove(path) },
		// The same content and time, and yet it was written: ctime tells.
		"time put back": func() {
			fi, _ := os.Stat(path)
			time.Sleep(20 * time.Millisecond)
			os.WriteFile(path, []byte("2"), 0o600)
			os.Chtimes(path, fi.ModTime(), fi.ModTime())
		},
	} {
		f := hashed(t, path, "1")
		if !f.Unchanged() {
			t.Errorf("%s: changed before anything was done", name)
		}
		time.Sleep(20 * time.Millisecond) // the clock of the file system ticks
		change()
		if f.Unchanged() {
			t.Errorf("%s: unchanged", name)
		}
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	if _, err := Hash(t.Context(), dir.Name(), dir); err == nil {
		t.Error("a directory has a hash")
	}
}
