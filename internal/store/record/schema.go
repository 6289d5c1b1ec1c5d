package record

import (
	"fmt"
	"slices"
	"strings"
)

// CheckSchema returns an error if the database lacks one of this program's migrations, but has a later one. Releases only add
// migrations at the end, so a build from a branch made such a database. applied has the versions that the database has, known
// those of this program. other says what else to use, such as "another database".
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
	return fmt.Errorf("its schema has version %d but lacks version %s, which this Fleet adds before that: another build of Fleet made it, for example from a branch: use that build, or %s",
		newest, strings.Join(missing, ", "), other)
}
