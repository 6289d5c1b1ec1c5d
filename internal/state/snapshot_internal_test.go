package state

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"fleet/internal/fleet"
)

// TestSnapshotStaysInOrder changes, adds and deletes agents, a few or many at a time. It checks that the snapshot stays
// sorted and complete, and does not change lists that it has already returned.
func TestSnapshotStaysInOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		s, live := newSnapshot(nil, lastSeqReader{}, ""), map[string]*fleet.AgentView{}
		changed := map[string]*fleet.AgentView{} // since the last TakeChanged
		var before []*fleet.AgentView            // the last list that All returned
		for seq := range int64(rapid.IntRange(1, 5).Draw(rt, "steps")) {
			var uids []string
			var views []*fleet.AgentView
			for _, i := range rapid.SliceOfNDistinct(rapid.IntRange(0, 199), 0, 2*resortThreshold, rapid.ID).Draw(rt, "changed") {
				v := &fleet.AgentView{Agent: fleet.Agent{UID: fmt.Sprint(i), Name: fmt.Sprintf("Agent-%d", i/2), Owner: fmt.Sprint(i % 2), Revision: seq}}
				live[v.UID], changed[v.UID] = v, v
				if rapid.IntRange(0, 3).Draw(rt, "deleted") == 0 {
					v.DeletedAt = time.Unix(1, 0)
					delete(live, v.UID)
					delete(changed, v.UID)
				}
				uids, views = append(uids, v.UID), append(views, v)
			}
			held := slices.Clone(before)
			s.apply(seq, uids, views, nil)
			require.Equal(rt, held, before, "a list that a caller holds must not change")
			if rapid.Bool().Draw(rt, "listed") {
				before = s.All()
				require.Equal(rt, slices.SortedFunc(maps.Values(live), ByName), append([]*fleet.AgentView(nil), before...))
			}
			if rapid.Bool().Draw(rt, "taken") {
				require.ElementsMatch(rt, slices.Collect(maps.Values(changed)), s.TakeChanged())
				clear(changed)
			}
			for uid, v := range live {
				require.Same(rt, v, s.Get(uid))
				found, err := s.Find(fleet.Principal{Name: v.Owner}, v.Name, v.Owner)
				require.NoError(rt, err)
				require.Same(rt, v, found)
			}
		}
	})
}
