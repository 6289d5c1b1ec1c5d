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
	// hasText is true for the tasks that the full-text index would find for an ASCII text. The text must be given in lower
	// case. Like the index, it treats the Kelvin sign as k and the long s as s. No other character equals an ASCII letter.
	hasText  = `(instr(` + folded + `description` + unfolded + `, ?) > 0 OR instr(` + folded + `summary` + unfolded + `, ?) > 0)`
	folded   = `lower(replace(replace(`
	unfolded = `, char(0x212A), 'k'), char(0x17F), 's'))`

	textRows   = `(SELECT rowid FROM tasks_text WHERE tasks_text MATCH ?)`
	someRows   = `SELECT rowid FROM tasks_text WHERE tasks_text MATCH ? LIMIT ?`
	newestRows = `SELECT rowid FROM tasks_text WHERE tasks_text MATCH ? ORDER BY rowid DESC LIMIT ?`
	// latestBefore returns a time that is not before the creation of any task with a number below the given number.
	latestBefore = `SELECT max(
		coalesce((SELECT max(latest) FROM task_times WHERE block < ?1 / 1000), 0),
		coalesce((SELECT max(+created_at) FROM tasks WHERE n BETWEEN ?1 / 1000 * 1000 AND ?1 - 1), 0))`
	// someRow returns the row at which a piece has been found a given number of times. The higher the row, the fewer tasks
	// have the piece.
	someRow = `SELECT rowid FROM tasks_text WHERE tasks_text MATCH ? LIMIT 1 OFFSET ?`
)

const (
	// minIndexed is the length of the pieces into which the full-text index splits texts, in characters. The index cannot
	// find a shorter text.
	minIndexed = 3
	// The index searches for all pieces of a text. For a text of at least minPieces pieces, it is faster to search only
	// for its piecesSought rarest ones, and then to check which tasks have the whole text. The index reads the rows of
	// every piece, so a piece that most tasks have costs more than it saves.
	minPieces, piecesSought = 3, 3
)

// These numbers of tasks decide how a text is searched.
const (
	firstRows     = 500  // how many of the newest tasks in the index are tried first for a first page
	moreRows      = 4000 // how many are tried next for a long text
	countedRows   = 2000 // how many of the newest tasks in the index count examines for a text that is not rare
	rareText      = 2000 // a text is rare if at most so many tasks have it; reading them all is then the fastest way
	maxCandidates = 6000 // like rareText, for a query that also finds tasks without the text
	firstSpan     = 4000 // for a text that is not rare: how many tasks are in the first span of time that is searched
	sampled       = 200  // how many occurrences of a piece are examined to estimate how frequent the piece is
)

// textQuery is a search for tasks with a text.
type textQuery struct {
	*readTx
	filter fleet.TaskFilter
	match  string // the query for the full-text index; "" if there is no text or the index cannot find it
	verify bool   // some of the tasks that the index finds may not have the text
	long   bool   // the text has at least minPieces pieces
	loaded bool   // rare is known
	rare   bool
	rows   string  // for a rare text, the numbers of the tasks that the index finds, as JSON
	found  []int64 // for a rare text, the numbers of the matching tasks; nil until they are known
	first  int     // firstRows, or less in tests
	more   int     // moreRows, or less in tests

	checked, matched int // how many of the newest tasks in the index were tried, and how many of them match
	span             int // firstSpan, or less in tests
}

// textQuery returns the search for the tasks of the filter.
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

// load finds out whether the text is rare, and if so, loads the tasks that the index finds.
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
	if len(ns) > most && q.verify { // there are many candidates, so searching for all pieces takes less time
		q.match, q.verify = quoted(q.filter.Text), false
		ns, err = all(q.readTx, scanInt64, someRows, q.match, rareText+1)
		most = rareText
	}
	if err == nil && len(ns) <= most {
		err = q.setRare(ns)
	}
	return err
}

// setRare records that the text is rare, and that the index finds the tasks with the numbers ns.
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

// newest returns the numbers of the count newest tasks that match. It tries only the newest tasks that the index finds.
// It returns nil if there are too few matches among them, or if other tasks can be newer.
func (q *textQuery) newest(count int) ([]int64, error) {
	numbers, err := q.newestAmong(q.first, count)
	if len(numbers) > 0 || err != nil || q.loaded || !q.long || q.matched*q.more < count*q.first { // more rows would hardly have enough
		return numbers, err
	}
	return q.newestAmong(q.more, count)
}

// newestAmong is like newest, and tries the given number of rows of the index. If the index has fewer rows, the text is
// rare, and newestAmong returns nil.
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
	// A newer task normally has a higher number. But clocks can go back, so check the times of tasks with lower numbers.
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

// among returns the conditions of the query for the tasks of the rows, which the index has found. rows is a JSON list.
func (q *textQuery) among(rows string) *taskQuery {
	c := taskConditions(q.filter, true)
	c.add(`n `+uidsIn, rows)
	q.addText(c)
	return c
}

// rarePieces returns a query for the index that searches for the rarest pieces of the text. It chooses pieces that do
// not overlap, because overlapping pieces occur together.
func (t *readTx) rarePieces(text string) (match string, err error) {
	type piece struct {
		at   int
		rows int64 // the result of someRow: the higher, the fewer tasks have the piece
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

// conditions returns the filter as SQL. For a text that the index finds and that is not rare, the caller must add the
// condition of the text.
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

// addText adds the condition that a task has the text, if the index can also find tasks without it.
func (q *textQuery) addText(c *taskQuery) {
	if q.verify {
		text := strings.ToLower(q.filter.Text)
		c.add(hasText, text, text)
	}
}
