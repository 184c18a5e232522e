package settings

import (
	"encoding/json"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Effective is a setting as the command would use it.
type Effective struct {
	Setting
	Value  any // as a person would give it; "set" for a secret; nil: not set, or given and wrong
	Origin Origin
	Wrong  bool
}

// Explain returns all settings as the sources give them, also when some are wrong; then the error is an *Error as
// from Load. It holds no secret.
func Explain(from Sources) ([]Effective, error) {
	_, l := read(from, nil)
	wrong := map[string]bool{}
	for _, p := range l.problems {
		wrong[strings.TrimSuffix(p.Name, "_FILE")] = true
	}
	var list []Effective
	for _, s := range l.settings {
		e := Effective{Setting: s, Origin: Origin{FromDefault, s.elsewhere}, Wrong: wrong[s.Env]}
		if origin, ok := l.origin[s.Env]; ok {
			e.Origin = origin
		}
		if !e.Wrong || e.Origin.Source == FromDefault {
			e.Value = s.value.get()
		}
		list = append(list, e)
	}
	return list, l.err()
}

// Text is the value for people, with its unit.
func (e Effective) Text() string {
	text := e.text()
	if e.Unit != "" && e.Value != nil {
		text += " " + e.Unit
	}
	return text
}

func (e Effective) text() string {
	switch v := e.Value.(type) {
	case nil:
		if e.Wrong && e.Origin.String() != FromDefault {
			return "wrong"
		}
		return "not set"
	case []string:
		return strings.Join(v, ", ")
	case []topicRule:
		rules := make([]string, len(v))
		for i, r := range v {
			rules[i] = r.String()
		}
		return strings.Join(rules, "; ")
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	case string:
		if v == "" {
			return `""`
		}
		return v
	default:
		return fmt.Sprint(v)
	}
}

// MarshalJSON makes the names of a setting, its value and its origin one object.
func (e Effective) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Name   string `json:"name"`
		Flag   string `json:"flag,omitempty"`
		Key    string `json:"key"`
		Value  any    `json:"value"`
		Unit   string `json:"unit,omitempty"`
		Source string `json:"source"`
		Where  string `json:"where,omitempty"`
		Secret bool   `json:"secret,omitempty"`
		Wrong  bool   `json:"wrong,omitempty"`
	}{e.Env, e.Flag, e.Key, e.Value, e.Unit, e.Origin.Source, e.Origin.Where, e.Secret, e.Wrong})
}

// target is what a DATABASE_URL was understood as, without the password.
type target struct {
	Hosts    []string `json:"hosts"` // host:port, or a folder of sockets
	Database string   `json:"database"`
	User     string   `json:"user"`
	Password string   `json:"password"` // "set" or "not set"
}

func newTarget(c *pgx.ConnConfig) target {
	t := target{Database: c.Database, User: c.User, Password: "not set"}
	if c.Password != "" {
		t.Password = "set"
	}
	add := func(host string, port uint16) {
		h := net.JoinHostPort(host, strconv.Itoa(int(port)))
		if len(t.Hosts) == 0 || t.Hosts[len(t.Hosts)-1] != h { // the same host comes again without TLS
			t.Hosts = append(t.Hosts, h)
		}
	}
	add(c.Host, c.Port)
	for _, f := range c.Fallbacks {
		add(f.Host, f.Port)
	}
	if t.Database == "" { // as the server takes it
		t.Database = t.User
	}
	return t
}

func (t target) String() string {
	return fmt.Sprintf("%s, database %s, user %s, password %s",
		strings.Join(t.Hosts, " or "), t.Database, t.User, t.Password)
}
