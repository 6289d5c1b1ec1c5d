package record

import (
	"fmt"
	"slices"
	"strings"
)

// CheckSchema returns an error if the migrations that were applied to a database lack one of this program that comes before
// another one. No later release makes such a schema. other names what to use instead, such as "another database".
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
