// Command check-history decides whether a history is linearizable: of locks, or with -set of a set of blocks.
//
// It reads operations from standard input, one JSON object a line, and writes its verdict, one JSON object, to standard
// output. The exit code is 0 where every resource's history is linearizable, 1 where one is not or the time was not
// enough to tell, 2 where the input is not a history. tests/support/hammer/history.py makes the operations on locks.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// An operation took effect at one moment between its call and its return (nanoseconds, both included).
type operation struct {
	Resource string `json:"resource"`
	Txn      string `json:"txn"`
	Mode     string `json:"mode"` // R or W
	Kind     string `json:"kind"` // acquire, held, lost or end
	Call     int64  `json:"call"`
	Return   int64  `json:"returned"`
}

// A verdict about all resources; what is below Seconds is about the first one that is at fault.
type verdict struct {
	Result     porcupine.CheckResult `json:"result"`
	Operations int                   `json:"operations"`
	Resources  int                   `json:"resources"`
	Seconds    float64               `json:"seconds"`
	Resource   string                `json:"resource,omitempty"`
	// Holders are the transactions inside after the longest order of operations that is right.
	Holders []string `json:"holders,omitempty"`
	// Stuck is the operation that has no place in that order.
	Stuck *operation `json:"stuck,omitempty"`
}

type holder struct{ txn, mode string }

// holders is the state of one lock: who is inside, ordered by transaction.
type holders []holder

func (inside holders) find(txn string) (int, bool) {
	return slices.BinarySearchFunc(inside, txn, func(each holder, txn string) int { return strings.Compare(each.txn, txn) })
}

// lock is the sequential specification: any number of readers or one writer.
//
// An acquisition needs everybody out whom it excludes. Held needs its transaction inside, lost needs it outside, and
// end takes it out. There is no operation for what never took effect: an attempt that failed promises nothing.
var lock = porcupine.Model{
	Init:  func() interface{} { return holders(nil) },
	Step:  step,
	Equal: func(one, other interface{}) bool { return slices.Equal(one.(holders), other.(holders)) },
}

func step(state, input, _ interface{}) (bool, interface{}) {
	inside, op := state.(holders), input.(operation)
	at, found := inside.find(op.Txn)
	switch op.Kind {
	case "acquire":
		if found || slices.ContainsFunc(inside, func(each holder) bool { return op.Mode == "W" || each.mode == "W" }) {
			return false, state
		}
		return true, slices.Insert(slices.Clone(inside), at, holder{op.Txn, op.Mode})
	case "held":
		return found, state
	case "lost":
		return !found, state
	default: // end
		if !found {
			return false, state
		}
		return true, slices.Delete(slices.Clone(inside), at, at+1)
	}
}

func main() {
	limit := flag.Duration("timeout", time.Minute, "how long to search")
	ofSet := flag.Bool("set", false, "the history is one of a set")
	flag.Parse()
	found, result, err := judge(os.Stdin, *ofSet, *limit)
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(found)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "check-history: %v\n", err)
		os.Exit(2)
	}
	if result != porcupine.Ok {
		os.Exit(1)
	}
}

func judge(input io.Reader, ofSet bool, limit time.Duration) (interface{}, porcupine.CheckResult, error) {
	if ofSet {
		history, err := readSet(input)
		if err != nil {
			return nil, porcupine.Unknown, err
		}
		found := checkSet(history, limit)
		return found, found.Result, nil
	}
	histories, err := read(input)
	if err != nil {
		return nil, porcupine.Unknown, err
	}
	found := check(histories, limit)
	return found, found.Result, nil
}

// read takes the history apart: locks of different resources have nothing to do with each other.
func read(input io.Reader) (map[string][]porcupine.Operation, error) {
	histories := make(map[string][]porcupine.Operation)
	decoder := json.NewDecoder(bufio.NewReader(input))
	decoder.DisallowUnknownFields()
	for {
		var op operation
		if err := decoder.Decode(&op); errors.Is(err, io.EOF) {
			return histories, nil
		} else if err != nil {
			return nil, err
		}
		known := slices.Contains([]string{"acquire", "held", "lost", "end"}, op.Kind) && (op.Mode == "R" || op.Mode == "W")
		if !known || op.Call > op.Return {
			return nil, fmt.Errorf("this is no operation: %+v", op)
		}
		histories[op.Resource] = append(
			histories[op.Resource], porcupine.Operation{Input: op, Call: op.Call, Return: op.Return})
	}
}

// check searches resource by resource, which needs far less memory than all at once, and stops at the first fault.
func check(histories map[string][]porcupine.Operation, limit time.Duration) verdict {
	started := time.Now()
	found := verdict{Result: porcupine.Ok, Resources: len(histories)}
	for resource, history := range histories {
		found.Operations += len(history)
		if found.Result != porcupine.Ok {
			continue
		}
		left := limit - time.Since(started)
		if left <= 0 { // to porcupine this would mean no limit
			found.Result = porcupine.Unknown
		} else {
			found.Result = porcupine.CheckOperationsTimeout(lock, history, left)
		}
		if found.Result != porcupine.Ok {
			found.Resource = resource
		}
	}
	if found.Result == porcupine.Illegal {
		found.Holders, found.Stuck = explain(histories[found.Resource], limit)
	}
	found.Seconds = time.Since(started).Seconds()
	return found
}

// explain searches once more, to tell how far the longest right order comes and what stops it there.
func explain(history []porcupine.Operation, limit time.Duration) ([]string, *operation) {
	_, info := porcupine.CheckOperationsVerbose(lock, history, limit)
	var longest []porcupine.Operation
	for _, partial := range info.PartialLinearizationsOperations()[0] {
		if len(partial) > len(longest) {
			longest = partial
		}
	}
	state := lock.Init()
	placed := make(map[operation]bool)
	for _, each := range longest {
		_, state = step(state, each.Input, nil)
		placed[each.Input.(operation)] = true
	}
	var stuck *operation
	for _, each := range history {
		if op := each.Input.(operation); !placed[op] && (stuck == nil || op.Return < stuck.Return) {
			stuck = &op
		}
	}
	inside := []string{}
	for _, each := range state.(holders) {
		inside = append(inside, each.txn)
	}
	return inside, stuck
}
