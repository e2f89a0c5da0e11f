package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

// A setOperation inserts one block into a set, or reads all that are in it. It took effect at one moment between its
// call and its return. tests/support/replicas/set_history.py makes them, and numbers blocks.
type setOperation struct {
	Number int   `json:"number"`
	Insert *int  `json:"insert"` // nil: it reads
	Blocks []int `json:"blocks"` // in order
	Call   int64 `json:"call"`
	Return int64 `json:"returned"`
}

// A setVerdict is about one set.
type setVerdict struct {
	Result     porcupine.CheckResult `json:"result"`
	Operations int                   `json:"operations"`
	Seconds    float64               `json:"seconds"`
	// Blocks are in the set after the longest order of operations that is right.
	Blocks []int `json:"blocks,omitempty"`
	// Stuck is the number of the operation that has no place in that order.
	Stuck *int `json:"stuck,omitempty"`
}

// set is the sequential specification: a read shows exactly what was inserted.
var set = porcupine.Model{
	Init:  func() interface{} { return []int(nil) },
	Step:  stepSet,
	Equal: func(one, other interface{}) bool { return slices.Equal(one.([]int), other.([]int)) },
}

func stepSet(state, input, _ interface{}) (bool, interface{}) {
	blocks, op := state.([]int), input.(setOperation)
	if op.Insert == nil {
		return slices.Equal(blocks, op.Blocks), state
	}
	at, found := slices.BinarySearch(blocks, *op.Insert)
	if found {
		return false, state
	}
	return true, slices.Insert(slices.Clone(blocks), at, *op.Insert)
}

// readSet reads the operations on one set.
func readSet(input io.Reader) ([]porcupine.Operation, error) {
	var history []porcupine.Operation
	decoder := json.NewDecoder(bufio.NewReader(input))
	decoder.DisallowUnknownFields()
	for {
		var op setOperation
		if err := decoder.Decode(&op); errors.Is(err, io.EOF) {
			return history, nil
		} else if err != nil {
			return nil, err
		}
		if op.Call > op.Return || !slices.IsSorted(op.Blocks) {
			return nil, fmt.Errorf("this is no operation: %+v", op)
		}
		history = append(history, porcupine.Operation{Input: op, Call: op.Call, Return: op.Return})
	}
}

// checkSet searches for an order, and where there is none tells how far the longest right one comes.
func checkSet(history []porcupine.Operation, limit time.Duration) setVerdict {
	started := time.Now()
	result, info := porcupine.CheckOperationsVerbose(set, history, limit)
	found := setVerdict{Result: result, Operations: len(history), Seconds: time.Since(started).Seconds()}
	if result != porcupine.Illegal {
		return found
	}
	var longest []porcupine.Operation
	for _, partial := range info.PartialLinearizationsOperations()[0] {
		if len(partial) > len(longest) {
			longest = partial
		}
	}
	state, placed := set.Init(), make(map[int]bool)
	for _, each := range longest {
		_, state = stepSet(state, each.Input, nil)
		placed[each.Input.(setOperation).Number] = true
	}
	var stuck *setOperation
	for _, each := range history {
		if op := each.Input.(setOperation); !placed[op.Number] && (stuck == nil || op.Return < stuck.Return) {
			stuck = &op
		}
	}
	found.Blocks, found.Stuck = state.([]int), &stuck.Number
	return found
}
