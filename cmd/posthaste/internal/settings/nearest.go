package settings

import (
	"cmp"
	"slices"
	"strings"
)

// hint names the known name that is meant most likely, or is empty.
func hint(name string, known []string) string {
	if near := nearest(name, known); near != "" {
		return " (" + near + " is one)"
	}
	return ""
}

// nearest returns the known name that differs the least from a misspelt one; of several the first by the alphabet. It
// returns "" where none is near.
func nearest(name string, known []string) string {
	type candidate struct {
		name string
		far  int
	}
	var near []candidate
	for _, k := range known {
		if far, ok := distance(bare(name), bare(k)); ok {
			near = append(near, candidate{k, far})
		}
	}
	if len(near) == 0 {
		return ""
	}
	return slices.MinFunc(near, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.far, b.far), cmp.Compare(a.name, b.name))
	}).name
}

// bare leaves out what people get wrong first: whose setting it is, and what stands between its words.
func bare(name string) string {
	name = strings.TrimPrefix(strings.TrimPrefix(strings.ToUpper(name), "POSTHASTE_"), "OUTBOX_")
	return strings.NewReplacer("_", "", ".", "", "-", "").Replace(name)
}

// distance says how far apart two names are: a group that is missing or too much in front, a unit or _FILE at the end,
// are nearer than any wrong letter.
func distance(given, known string) (int, bool) {
	short, long := given, known
	if len(short) > len(long) {
		short, long = long, short
	}
	atEnd := len(short) > 3 && strings.HasSuffix(long, short)
	inFront := len(short) > 3 && strings.HasPrefix(long, short) && len(short)*2 > len(long)
	if atEnd || inFront {
		return 0, true
	}
	letters := edits(given, known)
	return letters, letters <= 1+len(known)/5
}

// edits counts the letters to insert, delete or replace to get from one name to the other (Levenshtein). It is here
// because cobra keeps its own to itself and the libraries for it bring more modules than this has lines.
func edits(a, b string) int {
	row := make([]int, len(b)+1) // of a's beginning to each beginning of b
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := before
			if a[i] != b[j] {
				replaced++
			}
			before = row[j+1]
			row[j+1] = min(replaced, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
