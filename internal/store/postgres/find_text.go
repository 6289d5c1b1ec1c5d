package postgres

import (
	"strings"
	"unicode/utf8"

	"fleet/internal/fleet"
	"fleet/internal/store/record"
)

const (
	// setCustomPlans makes the database plan each later query of the transaction for its values. The best plan for finding a
	// text depends on how frequent the text is. With a plan for any text, a search for a short text reads a whole index.
	setCustomPlans = `SELECT set_config('plan_cache_mode', 'force_custom_plan', true)`

	selectTasksByNumber = `SELECT ` + record.TaskReadColumns + `, NULL::text FROM tasks WHERE n = ANY($1)` + newestFirst
)

// defaultFirstRead is how many of the newest tasks are searched for a text at first.
const defaultFirstRead = 5_000

// minLongText is the smallest number of characters of a long text. A long text may be rare although its words are frequent. Then the
// index is slow. So a search for a long text may read four times as many of the newest tasks.
const minLongText = 9

// textSearch finds the tasks of a filter with a text. The database could read the tasks in the order of lists or use
// the index of texts. It may choose badly, because it knows only roughly how frequent a text is. So textSearch reads
// the newest tasks first to decide: if only a few of them have the text, then usually only a few of all tasks have it,
// and the index finds them quickly.
type textSearch struct {
	*baseTx
	filter     fleet.TaskFilter
	firstRead  int // how many of the newest tasks are read first
	maxRead    int // the largest number of newest tasks to read after that; using the index is faster than reading more
	countLimit int // a search of the newest tasks counts matching tasks up to this number

	totalKnown bool // total is exact, or at least countLimit
	total      int  // at least this many tasks match
}

// newTextSearch returns a search that counts at most limit of the matching tasks.
func newTextSearch(t *baseTx, f fleet.TaskFilter, limit int) *textSearch {
	s := &textSearch{baseTx: t, filter: f, firstRead: defaultFirstRead, maxRead: 4 * defaultFirstRead, countLimit: limit}
	scattered := f.Owner != "" || f.Place != "" || f.Project != "" || len(f.Projects) > 0 || f.Status != "" // such tasks are spread over many disk pages
	switch {
	case utf8.RuneCountInString(f.Text) >= minLongText:
		s.maxRead *= 4
	case scattered:
		s.maxRead = 0
	}
	if scattered {
		s.firstRead /= 2
	}
	return s
}

func (t *baseTx) findText(f fleet.TaskFilter, w fleet.TaskWindow) (fleet.FoundTasks, error) {
	if _, err := queryFirst(t, record.ScanString, setCustomPlans); err != nil {
		return fleet.FoundTasks{}, err
	}
	s := newTextSearch(t, f, max(0, w.Count)+1)
	return record.FindTasks(w, func(limit int) ([]*fleet.Task, error) {
		after, err := t.findPosition(w.After)
		if err != nil {
			return nil, err
		}
		offset := max(0, w.Offset)
		if after != nil {
			offset = 0
		}
		ns, err := s.findNumbers(after, limit, offset)
		if err != nil || len(ns) == 0 {
			return nil, err
		}
		return queryAll(t, record.ScanTask, selectTasksByNumber, ns)
	}, s.count)
}

// findNumbers returns the column n of one page of the matching tasks, newest first. It skips the first offset tasks after the
// position, or from the newest task on if after is nil.
func (s *textSearch) findNumbers(after *position, limit, offset int) ([]int64, error) {
	need, maxFound := offset+limit, offset+limit
	if after == nil {
		maxFound = max(maxFound, s.countLimit)
	}
	ns, complete, err := s.searchNewest(s.firstRead, after, maxFound)
	if read := s.estimateTasksToRead(len(ns), need); err == nil && !complete && read > 0 {
		ns, complete, err = s.searchNewest(read, after, maxFound)
	}
	if err == nil && !complete && len(ns) < need {
		return s.searchAll(after, limit, offset)
	}
	return ns[min(offset, len(ns)):min(need, len(ns))], err
}

// estimateTasksToRead estimates how many of the newest tasks must be read to find need matching tasks, if n of the first s.firstRead match.
// It returns 0 if none or enough of them match, or if more than s.maxRead would be needed.
func (s *textSearch) estimateTasksToRead(n, need int) int {
	if n == 0 || n >= need {
		return 0
	}
	read := s.firstRead * need / n * 3 / 2
	if read > s.maxRead {
		return 0
	}
	return read
}

// searchNewest reads at most maxTasks tasks after the position, newest first, and returns the numbers of those that match, at most
// limit. complete reports whether it has read all tasks after the position. If after is nil, searchNewest sets s.total and s.totalKnown.
func (s *textSearch) searchNewest(maxTasks int, after *position, limit int) (ns []int64, complete bool, err error) {
	f := s.filter
	f.Text = ""
	c := taskConditions(f)
	if after != nil {
		c.addAfter(*after)
	}
	tasks := `(SELECT n, created_at, search FROM tasks WHERE ` + c.where + `true` + newestFirst + ` LIMIT ` + c.arg(maxTasks) + `) AS newest`
	c.where = ""
	c.addContains(strings.ToLower(s.filter.Text))
	found := `(coalesce(array_agg(n` + newestFirst + `) FILTER (WHERE ` + c.where + `true), '{}'))[:` + c.arg(min(limit, maxTasks)) + `]`
	tasksRead := 0
	if err := s.forEachRow(func(row scanner) error { return row.Scan(&ns, &tasksRead) }, `SELECT `+found+`, count(*) FROM `+tasks, c.args...); err != nil {
		return nil, false, s.fail(err)
	}
	complete = tasksRead < maxTasks
	if after == nil {
		s.total = len(ns)
		s.totalKnown = complete || s.total >= s.countLimit
	}
	return ns, complete, nil
}

// searchAll returns the same result as findNumbers by searching all tasks, and sets s.total to the number of matching tasks.
func (s *textSearch) searchAll(after *position, limit, offset int) (ns []int64, err error) {
	c := taskConditions(s.filter)
	found := `WITH found AS MATERIALIZED (SELECT n, created_at FROM tasks WHERE ` + c.where + `true)
		SELECT total, page.n FROM (SELECT count(*) AS total FROM found) AS counted LEFT JOIN (SELECT n FROM found WHERE `
	c.where = ""
	if after != nil {
		c.addAfter(*after)
	}
	page := newestFirst + ` LIMIT ` + c.arg(limit) + ` OFFSET ` + c.arg(offset) + `) AS page ON true`
	s.totalKnown = true
	err = s.forEachRow(func(row scanner) error {
		var n *int64 // nil if the page is empty
		if err := row.Scan(&s.total, &n); err != nil || n == nil {
			return err
		}
		ns = append(ns, *n)
		return nil
	}, found+c.where+`true`+page, c.args...)
	return ns, s.fail(err)
}

// count returns how many tasks match, at most limit. If some of the newest tasks match, count may count only those. Then more is
// true, because older tasks may match too.
func (s *textSearch) count(limit int) (n int, more bool, err error) {
	if !s.totalKnown && s.total == 0 {
		_, _, err = s.searchNewest(s.firstRead, nil, limit)
	}
	switch {
	case err != nil || s.totalKnown:
		return min(s.total, limit), false, err
	case s.total > 0:
		return s.total, true, nil
	}
	n, err = s.countTasks(s.filter, limit)
	return n, false, err
}
