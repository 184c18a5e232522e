// Package settings is the one place that knows the settings of the posthaste command: where each may be given, its
// default, what it is for and why.
//
// A value is taken from the first of these that has it: flag, environment, the file .env in the working directory, the
// YAML file that --config or POSTHASTE_CONFIG names, default. Load reads all of them and lists everything that is wrong
// in one error; nothing is clamped, and a variable POSTHASTE_... or a key of the file that nobody knows is refused
// rather than ignored.
//
// The table in table.go is also what the help, the example of a file and docs/reference-settings.md are made from.
package settings

import (
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/pflag"

	"posthaste.dev/posthaste/postgres"
	"posthaste.dev/posthaste/relay"
)

// Config holds the settings, typed. Each field belongs to exactly one setting, but for those whose comment says more.
type Config struct {
	Database Database
	Log      Log
	Relay    Relay
	Kafka    Kafka
	HTTP     HTTP
}

// Database says where the outbox is.
type Database struct {
	URL     string          // secret
	Conn    *pgx.ConnConfig // from URL and the PG* variables
	Table   string          // as in SQL
	Schema  string          // as in SQL
	Columns string          // usual=other pairs
	Names   postgres.Names  // from Table, Schema and Columns
}

// Log says what is logged to standard error, and how.
type Log struct {
	Level  string
	Format string
}

// Relay says how the relay works. Names, units and ranges of Config are those of package relay.
type Relay struct {
	Config     relay.Config
	Group      string // the group of topics that this relay serves; "": all topics that no group has
	Settle     relay.SettleMode
	SettleSync bool // wait for the disk at each settle: without, a crash of PostgreSQL repeats the last events
	Lanes      int  // refuse to start where the database has another number; 0: take the database's
}

// Kafka says how to reach the brokers. Idempotence and acks=all are no settings.
type Kafka struct {
	Brokers  []string // host:port each
	TLS      bool
	CAFile   string // PEM; "" stands for the system's authorities
	SASL     string
	Username string
	Password string // secret
	ClientID string
}

// HTTP says where /livez, /readyz and /metrics are served.
type HTTP struct {
	Addr string // "" serves nothing
}

// A Group is what a command has use for. A command reads no others, so that a wrong broker list does not stop a
// migration.
type Group string

// The groups.
const (
	GroupDatabase Group = "database"
	GroupLog      Group = "log"
	GroupRelay    Group = "relay"
	GroupKafka    Group = "kafka"
	GroupHTTP     Group = "http"
)

// Setting is one setting, as text.
type Setting struct {
	Group   Group
	Env     string // its variable
	Flag    string // "" for secrets, which would show in the list of processes
	Key     string // its place in the YAML file: section.name, or a name alone
	Default string // as it would be given
	Example string // for one without a default
	Unit    string
	Range   string // where not every value of its kind will do
	Help    string // what it is for
	Why     string // why the default is what it is, or when to give it
	Secret  bool   // never shown; may also be given by a file, which Env + "_FILE" or Key + "_file" names

	required  bool
	empty     bool   // an empty value means something; of the others it means that they are not set
	elsewhere string // where a value comes from that no source has
	value     value
}

// All returns the settings of the groups, of all when none is given.
func All(groups ...Group) []Setting {
	return inGroups(table(new(Config)), groups)
}

// AddFlags defines the flags of the groups. Their values are read by Load.
func AddFlags(flags *pflag.FlagSet, groups ...Group) {
	for _, s := range All(groups...) {
		if s.Flag != "" {
			help := s.Help
			if s.Unit != "" {
				help += ", in " + s.Unit
			}
			flags.String(s.Flag, s.Default, help+" ["+s.Env+"]")
		}
	}
}

// The file of settings has a flag and a variable like a setting, and is none: it can't be named in itself.
const (
	ConfigFlag = "config"
	ConfigEnv  = "POSTHASTE_CONFIG"
)

// AddConfigFlag defines the flag that names the file of settings.
func AddConfigFlag(flags *pflag.FlagSet) {
	flags.String(ConfigFlag, "", "YAML `file` of settings; none is read unless it is named ["+ConfigEnv+"]")
}

// SecretHelp tells of the settings of the groups that have no flag, since flags show in the list of processes.
func SecretHelp(groups ...Group) string {
	var b strings.Builder
	b.WriteString("From the environment, .env or the YAML file alone, or from a file that the same name with _FILE " +
		"gives:\n")
	for _, s := range All(groups...) {
		if s.Secret {
			fmt.Fprintf(&b, "  %s: %s\n", s.Env, s.Help)
		}
	}
	return b.String()
}
