package process

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseStat(t *testing.T) {
	t.Parallel()
	const tail = " 1 4242 4242 0 -1 4194560 95 0 0 0 0 0 0 0 20 0 1 0 987654 4177920 200"
	for name, tc := range map[string]struct {
		stat   string
		zombie bool
		fails  bool
	}{
		"plain":                   {stat: "7 (cat) R" + tail},
		"name with parenthesis":   {stat: "7 (a) Z 9 (b) S" + tail},
		"zombie":                  {stat: "7 (cat) Z" + tail, zombie: true},
		"first thread ended":      {stat: "7 (cat) Z 1 4242 4242 0 -1 4194560 95 0 0 0 0 0 0 0 20 0 3 0 987654 4177920 200"},
		"too few fields":          {stat: "7 (cat) R 1 2", fails: true},
		"empty":                   {stat: "", fails: true},
		"no parenthesis anywhere": {stat: "7 cat R" + tail, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, err := parseStat(7, []byte(tc.stat))
			if tc.fails {
				require.Error(t, err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, Entry{ID: ID{PID: 7, Start: "987654", Boot: bootID()}, Parent: 1, Group: 4242, Zombie: tc.zombie}, e)
		})
	}
}
