package posthaste

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"posthaste.dev/posthaste/internal/testenv"
)

// scanSeeds are objects that the scanner accepts, of every kind that it measures.
var scanSeeds = []string{
	`{}`, ` { } `, `{"a":[]}`, `{"a":{}}`, "{\"a\"\t:\r\n[ 1 , 2 ]}",
	`{"id":9007199254740993,"amt":1.10,"big":327267367867168100000,"u":"\u2028 é","s":"\/"}`,
	`{"n":[0,-0,0.0,-0.00,1,-1,10,0.1,-0.10,123.4500,1e0,1E+2,1e-2,12.50e1,12.5e3]}`,
	`{"n":[0.001e2,0.00010e3,100e-1,0e5,0e-5,-0e1,-1e-3]}`,
	`{"n":[1e20,1.5e-20,123456789012345678901234567890.123456789,0.0000001e10,1e131071,1e-16383,1000e-3,5e-324]}`,
	`{"s":"\"\\\b\f\n\r\t\/\u0001\u001f\u007f\u0022\u005c\u0008\u00e9\u20ac\ud83d\ude00","` + "\u007f" + `":"😀"}`,
	`{"\u0061\n":true,"b":false,"c":null,"":""}`,
	`{"bb":1,"a":2,"ccc":{"z":[[],[{}],"x"]}}`,
	`{"deep":` + strings.Repeat("[", maxDepth-1) + strings.Repeat("]", maxDepth-1) + `}`,
}

// What the scanner accepts, PostgreSQL takes, and prints in exactly as many bytes as the scanner counted.
func TestScanAgreesWithPostgreSQL(t *testing.T) {
	t.Parallel()
	texts := append([]string(nil), scanSeeds...)
	random := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		texts = append(texts, `{"r":`+randomJSON(random, 4)+`}`)
	}
	for _, server := range []string{testenv.DatabaseURL13, testenv.DatabaseURL, testenv.DatabaseURL18} {
		ctx := context.Background()
		conn, err := pgx.Connect(ctx, testenv.Require(t, server))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(ctx)
		for _, text := range texts {
			s := jsonScanner{text: []byte(text)}
			if err := s.scan(); err != nil {
				t.Errorf("scan(%.80q): %v", text, err)
				continue
			}
			var printed string
			if err := conn.QueryRow(ctx, `select $1::text::jsonb::text`, text).Scan(&printed); err != nil {
				t.Errorf("%s: %.80q: %v", server, text, err)
			} else if len(printed) != s.printed {
				t.Errorf("%s: %.80q is printed in %d bytes, counted %d: %.200s", server, text, len(printed), s.printed,
					printed)
			}
		}
	}
}

func randomJSON(r *rand.Rand, depth int) string {
	space := strings.Repeat(" ", r.IntN(2))
	list := func(item func(i int) string) string {
		items := make([]string, r.IntN(4))
		for i := range items {
			items[i] = space + item(i) + space
		}
		return strings.Join(items, ",")
	}
	kind := r.IntN(6)
	if depth == 0 {
		kind %= 4
	}
	switch kind {
	case 0:
		number := fmt.Sprint(r.IntN(1000))
		if r.IntN(2) == 0 {
			number += "." + strings.Repeat("0", r.IntN(3)) + fmt.Sprint(r.IntN(1000))
		}
		if r.IntN(2) == 0 {
			number += fmt.Sprintf("e%d", r.IntN(40)-20)
		}
		return strings.Repeat("-", r.IntN(2)) + number
	case 1, 2:
		var b strings.Builder
		for range r.IntN(8) {
			switch c := rune(1 + r.IntN(0x2ff)); {
			case c < ' ' || c == '"' || c == '\\' || r.IntN(3) == 0:
				fmt.Fprintf(&b, `\u%04X`, c)
			default:
				b.WriteRune(c)
			}
		}
		return `"` + b.String() + `"`
	case 3:
		return [...]string{"true", "false", "null"}[r.IntN(3)]
	case 4:
		return "[" + list(func(int) string { return randomJSON(r, depth-1) }) + "]"
	}
	return "{" + list(func(i int) string { return fmt.Sprintf(`"k%d":`, i) + randomJSON(r, depth-1) }) + "}"
}
