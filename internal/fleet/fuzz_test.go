package fleet_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
)

// FuzzPage checks that Paginate either returns an error with a message, or a part of the list and a cursor that continues
// right after that part.
func FuzzPage(f *testing.F) {
	f.Add("", 1, 20, 5, uint8(30), true, true, true)
	f.Add("17", 0, -1, 1, uint8(30), false, true, false)
	f.Add("2147483648", 1<<62, 1<<62, 1<<62, uint8(3), true, true, true)
	f.Fuzz(func(t *testing.T, cursor string, page, size, limit int, n uint8, hasPage, hasSize, hasLimit bool) {
		r := fleet.PageRequest{Cursor: cursor}
		if hasPage {
			r.Page = &page
		}
		if hasSize {
			r.PageSize = &size
		}
		if hasLimit {
			r.Limit = &limit
		}
		all := make([]int, n)
		for i := range all {
			all[i] = i
		}
		part, next, err := fleet.Paginate(all, r, fleet.DefaultPageSize)
		if err != nil {
			require.NotEmpty(t, fleet.PublicMessage(err))
			return
		}
		if next == "" {
			return
		}
		require.NotEmpty(t, part, "an empty part has a cursor, so the caller would never reach the end")
		rest, _, err := fleet.Paginate(all, fleet.PageRequest{Cursor: next, Limit: new(1)}, 0)
		require.NoError(t, err)
		require.Equal(t, part[len(part)-1]+1, rest[0])
	})
}
