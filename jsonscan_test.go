package posthaste

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
)

func scanText(text string) error {
	s := jsonScanner{text: []byte(text)}
	return s.scan()
}

func TestScan(t *testing.T) {
	nested := func(n int) string { return `{"a":` + strings.Repeat("[", n) + strings.Repeat("]", n) + `}` }
	many := func(last string) string {
		var b strings.Builder
		for i := range 40 {
			fmt.Fprintf(&b, `"k%d":%d,`, i, i)
		}
		return `{` + b.String() + `"` + last + `":0}`
	}
	for text, want := range map[string]error{
		``:                                  ErrInvalidJSON,
		` `:                                 ErrInvalidJSON,
		`null`:                              ErrInvalidJSON,
		`[]`:                                ErrInvalidJSON,
		`"x"`:                               ErrInvalidJSON,
		`{`:                                 ErrInvalidJSON,
		`{}{}`:                              ErrInvalidJSON,
		`{"a"}`:                             ErrInvalidJSON,
		`{"a":}`:                            ErrInvalidJSON,
		`{"a":1,}`:                          ErrInvalidJSON,
		`{"a":[1,]}`:                        ErrInvalidJSON,
		`{"a":[1 2]}`:                       ErrInvalidJSON,
		`{a:1}`:                             ErrInvalidJSON,
		`{'a':1}`:                           ErrInvalidJSON,
		`{"a":01}`:                          ErrInvalidJSON,
		`{"a":-}`:                           ErrInvalidJSON,
		`{"a":1.}`:                          ErrInvalidJSON,
		`{"a":.5}`:                          ErrInvalidJSON,
		`{"a":1e}`:                          ErrInvalidJSON,
		`{"a":+1}`:                          ErrInvalidJSON,
		`{"a":NaN}`:                         ErrInvalidJSON,
		`{"a":tru}`:                         ErrInvalidJSON,
		`{"a":"x`:                           ErrInvalidJSON,
		`{"a":"\`:                           ErrInvalidJSON,
		`{"a":"\x"}`:                        ErrInvalidJSON,
		`{"a":"\u12g4"}`:                    ErrInvalidJSON,
		`{"a":"\u12`:                        ErrInvalidJSON,
		`{"a":"\ud83d\u12`:                  ErrInvalidJSON,
		"{\"a\":\"tab\there\"}":             ErrInvalidJSON,
		"\ufeff{}":                          ErrInvalidJSON,
		"{}\x00":                            ErrInvalidJSON,
		"{\"a\":\"\x00\"}":                  ErrNUL,
		`{"a":"\u0000"}`:                    ErrNUL,
		`{"\u0000":1}`:                      ErrNUL,
		"{\"a\":\"\xff\"}":                  ErrInvalidUTF8,
		"{\"é\":\"\xc3\"}":                  ErrInvalidUTF8,
		"{\"a\":\"\xed\xa0\x80\"}":          ErrInvalidUTF8,
		`{"a":"\ud800"}`:                    ErrInvalidUTF8,
		`{"a":"\udc00\ud800"}`:              ErrInvalidUTF8,
		`{"a":"\ud800\u0041"}`:              ErrInvalidUTF8,
		`{"a":"\ud800x"}`:                   ErrInvalidUTF8,
		`{"b":1,"a":2,"a":3,"sig":"x"}`:     ErrRepeatedKey,
		`{"a":1,"\u0061":2}`:                ErrRepeatedKey,
		`{"x":[{"y":{"a":1,"b":2,"a":1}}]}`: ErrRepeatedKey,
		`{"":1,"":2}`:                       ErrRepeatedKey,
		many("k7"):                          ErrRepeatedKey,
		nested(maxDepth):                    ErrTooDeep,
		nested(1 << 20):                     ErrTooDeep,
		`{"a":1e131072}`:                    ErrNumberRange,
		`{"a":1e-16384}`:                    ErrNumberRange,
		`{"a":1e99999999999999999999999}`:   ErrNumberRange,
	} {
		if err := scanText(text); !errors.Is(err, want) {
			t.Errorf("scan(%.60q) = %v, want %v", text, err, want)
		}
	}
	err := scanText(`{"b":1,"a":2,"a":3}`)
	if err == nil || !strings.Contains(err.Error(), ": a (at byte 13)") {
		t.Errorf("a repeated key is told as %v: want its name and place", err)
	}
	for _, text := range []string{`{}`, " {\n}\t", many("other"), nested(maxDepth - 1),
		`{"a":{"a":{"a":[{"a":1},{"a":1}]}}}`, `{"a":1,"A":2}`, `{"a":"\ud83d\ude00\u2028 é\/"}`,
		`{"a":[-0,1e131071,1e-16383,0.10,true,false,null]}`} {
		if err := scanText(text); err != nil {
			t.Errorf("scan(%.60q) = %v", text, err)
		}
	}
}

// FuzzScan holds the scanner against encoding/json: it takes nothing that is not JSON, and refuses JSON objects
// for the reasons alone that encoding/json does not know. What the accepted texts become in PostgreSQL is for
// TestScanAgreesWithPostgreSQL.
func FuzzScan(f *testing.F) {
	for _, seed := range scanSeeds {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		err := scanText(string(text))
		object := json.Valid(text) && bytes.HasPrefix(bytes.TrimLeft(text, " \t\r\n"), []byte("{"))
		switch {
		case err == nil && !object:
			t.Fatalf("accepted %q", text)
		case errors.Is(err, ErrInvalidJSON) && object:
			t.Fatalf("refused %q: %v", text, err)
		case err != nil && object:
			for _, reason := range []error{ErrNUL, ErrInvalidUTF8, ErrRepeatedKey, ErrNumberRange, ErrTooDeep} {
				if errors.Is(err, reason) {
					return
				}
			}
			t.Fatalf("refused %q without a reason: %v", text, err)
		}
	})
}
