package record

import (
	"fmt"
	"slices"
	"strings"
)

// CheckSchema returns an error if the database lacks a migration of this program but has a later one. Releases only add
// migrations at the end, so only a build from a branch can have made such a database. applied are the versions of the
// migrations in the database, and known are those of this program. other names the alternative for the user, such as
// "another database".
func CheckSchema(applied, known []int64, other string) error {
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
