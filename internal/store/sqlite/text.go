package sqlite

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"fleet/internal/fleet"
)

const (
	hasChars = `(instr(lower(description), lower(?)) > 0 OR instr(lower(summary), lower(?)) > 0)`
	// hasText is true for what the full-text index finds for an ASCII text, given in lower case. The index also takes the Kelvin sign for
	// k and the long s for s, and no other character for an ASCII letter.
	hasText  = `(instr(` + folded + `description` + unfolded + `, ?) > 0 OR instr(` + folded + `summary` + unfolded + `, ?) > 0)`
	folded   = `lower(replace(replace(`
	unfolded = `, char(0x212A), 'k'), char(0x17F), 's'))`

	textRows   = `(SELECT rowid FROM tasks_text WHERE tasks_text MATCH ?)`
	someRows   = `SELECT rowid FROM tasks_text WHERE tasks_text MATCH ? LIMIT ?`
	newestRows = `SELECT rowid FROM tasks_text WHERE tasks_text MATCH ? ORDER BY rowid DESC LIMIT ?`
	// latestBefore returns a time after which no task was created that has a number below the given one.
	latestBefore = `SELECT max(
		coalesce((SELECT max(latest) FROM task_times WHERE block < ?1 / 1000), 0),
		coalesce((SELECT max(+created_at) FROM tasks WHERE n BETWEEN ?1 / 1000 * 1000 AND ?1 - 1), 0))`
	// someRow is where a piece has been found several times: the later, the fewer tasks have it.
	someRow = `SELECT rowid FROM tasks_text WHERE tasks_text MATCH ? LIMIT 1 OFFSET ?`
)

const (
	// minIndexed is the length of the shortest text that the full-text index can find, and of the pieces of a text that it has, in characters.
	minIndexed = 3
	// The index looks for each piece of a text. A few of them are enough to find candidates, unless the text is shorter.
	minPieces, piecesSought = 3, 4
)

// Most first pages are among the firstRows newest tasks that the index finds, and for a text of several pieces among moreRows. Reading all
// tasks that have a text is faster than a walk through the newest tasks, which begins with firstSpan of them, if there are at most rareText.
const (
	firstRows     = 500
	moreRows      = 4000
	countedRows   = 2000 // tasks among which those with a text of several pieces are counted
	rareText      = 2000
	maxCandidates = 6000 // the same as rareText where some of the tasks do not have the text
	firstSpan     = 4000
	sampled       = 200 // how many tasks show how frequent a piece is
)

// textQuery is a search for tasks with a text.
type textQuery struct {
	*readTx
	filter fleet.TaskFilter
	match  string // what the full-text index looks for; "" if it cannot find the text, or there is none
	verify bool   // some of the tasks that the index finds do not have the text
	long   bool   // the text has many pieces
	loaded bool   // rare is known
	rare   bool
	rows   string  // the tasks that the index finds for a text that is rare, as JSON
	found  []int64 // the tasks that match a text that is rare; nil until they are known
	first  int     // how many of the tasks that the index finds are tried first, the newest ones
	more   int     // how many of them are tried next, if the text is long

	checked, matched int // how many of the newest tasks that the index finds were tried, and how many of those match
	span             int // how many tasks the first span of time has that is searched for a text that is not rare
}

func (t *readTx) textQuery(f fleet.TaskFilter) (q textQuery, err error) {
	q = textQuery{readTx: t, filter: f, first: firstRows, more: moreRows, span: firstSpan}
	if utf8.RuneCountInString(f.Text) < minIndexed {
		return q, nil
	}
	q.match = quoted(f.Text)
	if len(f.Text) >= minPieces*minIndexed && isASCII(f.Text) {
		q.long, q.verify = true, true
		q.match, err = t.rarePieces(strings.ToLower(f.Text))
	}
	return q, err
}

// load finds out whether the text is rare.
func (q *textQuery) load() error {
	if q.loaded || q.match == "" {
		return nil
	}
	q.loaded = true
	most := rareText
	if q.verify {
		most = maxCandidates
	}
	ns, err := all(q.readTx, scanInt64, someRows, q.match, most+1)
	if len(ns) > most && q.verify { // then to look for all pieces takes less time
		q.match, q.verify = quoted(q.filter.Text), false
		ns, err = all(q.readTx, scanInt64, someRows, q.match, rareText+1)
		most = rareText
	}
	if err == nil && len(ns) <= most {
		err = q.setRare(ns)
	}
	return err
}

func (q *textQuery) setRare(ns []int64) error {
	rows, err := q.list(ns)
	q.loaded, q.rare, q.rows = true, err == nil, rows
	return err
}

func (q *textQuery) list(ns []int64) (string, error) {
	list, err := json.Marshal(append([]int64{}, ns...))
	if err != nil {
		return "", q.failed(err)
	}
	return string(list), nil
}

// newest returns the newest numbers of tasks that match, if there are as many among the newest tasks that the index finds, and no
// other task can be newer.
func (q *textQuery) newest(count int) ([]int64, error) {
	numbers, err := q.newestAmong(q.first, count)
	if len(numbers) > 0 || err != nil || q.loaded || !q.long {
		return numbers, err
	}
	return q.newestAmong(q.more, count)
}

// newestAmong is newest among so many tasks that the index finds.
func (q *textQuery) newestAmong(rows, count int) ([]int64, error) {
	ns, err := all(q.readTx, scanInt64, newestRows, q.match, rows)
	if err != nil {
		return nil, err
	}
	if len(ns) < rows {
		return nil, q.setRare(ns)
	}
	list, err := q.list(ns)
	if err != nil {
		return nil, err
	}
	c := q.among(list)
	found, err := all(q.readTx, scanPosition, `SELECT created_at, n FROM tasks WHERE `+c.where+`true`+newestFirst, c.args...)
	q.checked, q.matched = rows, len(found)
	if err != nil || len(found) < count {
		return nil, err
	}
	found = found[:count]
	// Numbers of tasks rise nearly as their times do, but clocks can go back.
	latest, err := first(q.readTx, scanInt64, latestBefore, ns[len(ns)-1])
	if err != nil || latest >= found[count-1].createdAt {
		return nil, err
	}
	var numbers []int64
	for _, p := range found {
		numbers = append(numbers, p.n)
	}
	return numbers, nil
}

// among returns the conditions of tasks that the index has found.
func (q *textQuery) among(rows string) *taskQuery {
	c := taskConditions(q.filter, true)
	c.add(`n `+uidsIn, rows)
	q.addText(c)
	return c
}

// rarePieces returns a search for pieces of the text that few tasks have. Pieces that overlap say little more than one of them.
func (t *readTx) rarePieces(text string) (match string, err error) {
	type piece struct {
		at   int
		rows int64 // number of the last of the first tasks that have it: the higher, the fewer have it
	}
	var pieces []piece
	known := map[string]bool{}
	for at := range len(text) - minIndexed + 1 {
		p := text[at : at+minIndexed]
		if known[p] {
			continue
		}
		known[p] = true
		n, err := first(t, scanInt64, someRow, quoted(p), sampled)
		if err != nil {
			return "", err
		}
		if n == 0 {
			n = math.MaxInt64
		}
		pieces = append(pieces, piece{at, n})
	}
	slices.SortStableFunc(pieces, func(a, b piece) int { return cmp.Compare(b.rows, a.rows) })
	var chosen []piece
	for _, p := range pieces {
		overlaps := func(c piece) bool { return p.at < c.at+minIndexed && c.at < p.at+minIndexed }
		if len(chosen) < piecesSought && !slices.ContainsFunc(chosen, overlaps) {
			chosen = append(chosen, p)
		}
	}
	var texts []string
	for _, p := range chosen {
		texts = append(texts, quoted(text[p.at:p.at+minIndexed]))
	}
	return strings.Join(texts, ` AND `), nil
}

// quoted returns the text as a phrase in the language of the full-text index.
func quoted(text string) string { return `"` + strings.ReplaceAll(text, `"`, `""`) + `"` }

func isASCII(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r == 0 || r >= utf8.RuneSelf })
}

// conditions returns the filter as SQL, except for a text that is not rare.
func (q *textQuery) conditions() *taskQuery {
	if q.rare {
		return q.among(q.rows)
	}
	c := taskConditions(q.filter, false)
	if q.filter.Text != "" && q.match == "" {
		c.add(hasChars, q.filter.Text, q.filter.Text)
	}
	return c
}

// addText adds the condition that a task that the full-text index has found has the text.
func (q *textQuery) addText(c *taskQuery) {
	if q.verify {
		text := strings.ToLower(q.filter.Text)
		c.add(hasText, text, text)
	}
}
