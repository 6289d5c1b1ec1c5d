package record

import (
	"fmt"
	"slices"
	"strings"
)

// OldestQuery is the query for Schema.Oldest.
const OldestQuery = `SELECT oldest FROM compatibility`

// Schema has the version of a database's schema and the version that this program needs.
type Schema struct {
	Have   int64 // version of the schema; 0 if there is no schema
	Want   int64 // version that this program needs
	Oldest int64 // if Have is greater than Want: the version that a program must at least support to work with the schema
}

// Newer reports whether a newer program has upgraded the schema.
func (s Schema) Newer() bool { return s.Have > s.Want }

// Usable reports whether this program can work with the schema. An older schema must be upgraded first.
func (s Schema) Usable() bool { return !s.Newer() || s.Oldest <= s.Want }

// Check returns an error if this program cannot work with the schema. other names the alternative for the user, such as
// "another database".
func (s Schema) Check(other string) error {
	if s.Usable() {
		return nil
	}
	return fmt.Errorf("its schema has version %d, which needs a Fleet that supports at least version %d, and this Fleet supports versions up to %d: use a newer Fleet, or %s",
		s.Have, s.Oldest, s.Want, other)
}

// CheckMigrations returns an error if the database lacks a migration of this program but has a later one. A release only adds
// migrations after all existing ones, so only a build from a branch can have made such a database. applied are the versions of the
// migrations in the database, and known are those of this program. other names the alternative for the user, such as
// "another database".
func CheckMigrations(applied, known []int64, other string) error {
	if len(applied) == 0 {
		return nil
	}
	newest := slices.Max(applied)
	var missing []string
	for _, v := range slices.Sorted(slices.Values(known)) {
		if v < newest && !slices.Contains(applied, v) {
			missing = append(missing, fmt.Sprint(v))
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("its schema has version %d but lacks the earlier version %s: another build of Fleet made it, for example from a branch: use that build, or %s",
		newest, strings.Join(missing, ", "), other)
}
