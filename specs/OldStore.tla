------------------------------ MODULE OldStore ------------------------------
(* A coordination store that is brought back from an old copy: what the replicas' own commits tell of that.      *)
(*                                                                                                               *)
(* An entry has an id that no other one ever has. The store has the ids of all entries, its line; an archive has *)
(* those that it executed, negative where it passed one whose quorum had failed. What the store knows of quorums *)
(* and of members is what its line says. Whoever takes a step asks some replicas first: those that can be read.  *)
(* README.md beside this file says what is modelled, and what is not.                                            *)
EXTENDS Integers, Sequences, FiniteSets

CONSTANTS
    Replicas, \* numbers
    Members,  \* those of them that the archive has from the beginning
    Authors,  \* through whom backups are made, and recoveries begun
    Size,     \* how many replicas are a quorum
    Plain,    \* how many backups are made that count at once
    Quorums,  \* how many that count with a quorum
    Failures, \* how many quorums fail
    Losses,   \* how many replicas become lost, without a reason that is modelled
    Trims,    \* how often the log is trimmed
    Changes,  \* how often a replica is added or removed
    Puts,     \* how often the store's copy is put back
    Turns,    \* whether what the copy replaces is kept, and put back next
    Rebuilds, \* how often the log is rebuilt
    Late,     \* how many steps a process takes that has asked before, and was suspended since
    Apart,    \* whether some replicas cannot be read at some steps; else all can at each
    Removed   \* the guards of the protocol that are left out; {} in the protocol as it is

VARIABLES
    entries,  \* what each entry says, by id
    store,    \* the coordination store
    copy,     \* a copy of it that was kept
    archive,  \* what each replica's own commits say
    told,     \* the backups that somebody was told of as done, without those that were given up by name since
    left,     \* how often what is bounded may still happen
    late      \* how many steps may still be taken by who has asked before

vars == <<entries, store, copy, archive, told, left, late>>

Guard(name) == name \notin Removed

Max(numbers) == CHOOSE n \in numbers \union {0} : \A m \in numbers : m <= n
Abs(n) == IF n < 0 THEN -n ELSE n
Range(sequence) == {sequence[i] : i \in 1..Len(sequence)}

NoStore == [id |-> 0]
Empty == [line |-> <<>>, store |-> 0, before |-> {}, named |-> FALSE, recovering |-> FALSE, aside |-> FALSE]

Init ==
    /\ entries = <<>>
    /\ store = [id |-> 1, line |-> <<>>, start |-> 1, counts |-> 0, before |-> {}, lost |-> {},
                pointer |-> [r \in Replicas |-> 0], won |-> {}, rows |-> Members, new |-> {}]
    /\ copy = NoStore
    /\ archive = [r \in Replicas |-> IF r \in Members THEN [Empty EXCEPT !.store = 1] ELSE Empty]
    /\ told = {}
    /\ left = [plain |-> Plain, quorum |-> Quorums, fail |-> Failures, lose |-> Losses, trim |-> Trims,
               change |-> Changes, take |-> 1, put |-> Puts, rebuild |-> Rebuilds]
    /\ late = Late

-----------------------------------------------------------------------------
(* What a line says. *)

Of(line, kind) == {i \in 1..Len(line) : entries[Abs(line[i])].kind = kind}
Named(line, kind) == {entries[Abs(line[i])].of : i \in Of(line, kind)}

(* The backups an archive holds. *)
Content(a) == {x \in Range(a.line) : x > 0 /\ entries[x].kind \in {"plain", "quorum"}} \ Named(a.line, "drop")

Index(line, id) == CHOOSE i \in 1..Len(line) : line[i] = id

Failed == Named(store.line, "drop")
Succeeded == Named(store.line, "acknowledged") \union store.won
Pending ==
    {store.line[i] : i \in {j \in Of(store.line, "quorum") : j > store.counts}} \ (Failed \union Succeeded)

(* What a sequential read must have executed. *)
Acknowledged ==
    Max({store.counts} \union Of(store.line, "acknowledged")
        \union {Index(store.line, x) : x \in store.won \intersect Range(store.line)})

-----------------------------------------------------------------------------
(* Members. *)

Executed(i, among) == {r \in among : store.pointer[r] >= i}
Enlarged(i, before) ==
    Cardinality(Executed(i, before)) >= (IF Cardinality(before) < Size THEN Cardinality(before) ELSE Size)

Joins(r) == {i \in Of(store.line, "join") : entries[store.line[i]].of = r}
Leaves(r) == {i \in Of(store.line, "leave") : entries[store.line[i]].of = r}

(* A replica that was added and never recovered has nothing, so nobody waits for it. *)
Present == store.rows \ store.new

(* Those who vote. Changes count once enough of the members before have executed them. *)
Counted == {r \in Present : \A i \in Joins(r) : Enlarged(i, Present \ {r})}

-----------------------------------------------------------------------------
(* What an archive says of a store. *)

LastOf(s, a) ==
    IF a.store = s.id THEN Len(s.line)
    ELSE Max({b[2] : b \in {x \in s.before : x[1] = a.store}})

Descends(s, a) == a.store = s.id \/ \E b \in s.before : b[1] = a.store

(* The id of the entry that it ends at is another one there, or it passed one that has not failed there. *)
Differs(s, a) ==
    LET i == Len(a.line)
        drops == {entries[s.line[j]].of : j \in {k \in 1..Len(s.line) : entries[s.line[k]].kind = "drop"}}
    IN /\ i > 0 /\ a.named
       /\ i >= s.start \/ Guard("the ids of trimmed entries stay known")
       /\ \/ s.line[i] # Abs(a.line[i]) /\ Guard("another entry at its index contradicts")
          \/ a.line[i] < 0 /\ Abs(a.line[i]) \notin drops /\ Guard("who passed a failed entry says so")

Contradicts(s, a) ==
    /\ a.store # 0
    /\ \/ ~Descends(s, a)
       \/ /\ ~a.aside \/ ~Guard("what is set aside contradicts no entry")
          /\ Len(a.line) > LastOf(s, a) \/ Differs(s, a)

(* Whom the store, and whom an archive names. *)
Names(line) == Members \union Named(line, "join")

Asked(R) ==
    LET known == store.rows \union Names(store.line)
        more == UNION {Names(archive[r].line) : r \in known \intersect R}
    IN ((known \union more) \intersect R) \ (IF Guard("lost replicas are asked, too") THEN {} ELSE store.lost)

(* Those that do not contradict. *)
Clear == {r \in Replicas : ~Contradicts(store, archive[r])}

(* Those that are what the store says of them. *)
Good ==
    {r \in Clear \intersect (store.rows \ store.lost) :
        archive[r].store = store.id /\ ~archive[r].recovering /\ ~archive[r].aside}

(* One whose votes do not count yet is waited for: they may count already, and a copy that was put back not know it. *)
Waited == IF Guard("a read waits for members that do not count yet") THEN Present ELSE Counted
Enough(R) == Cardinality({r \in Waited \intersect R : archive[r].store # 0}) >= Cardinality(Waited) - Size + 1

(* The sets of replicas that can be read at a step. *)
Looks == IF Apart THEN SUBSET Replicas \ {{}} ELSE {Replicas}

(* Some set of readable replicas, these among them, lets the step be taken: all others agree; they are enough. *)
Lets(who, asks, counts) ==
    LET clear == Clear
    IN \E R \in Looks : who \subseteq R /\ (counts => Enough(R)) /\ (asks => Asked(R) \ who \subseteq clear)

(* Who can act, and whether anybody can whose own replica does not matter. *)
Who(asks, counts) == {r \in Good : Lets({r}, asks, counts)}
Whoever(asks, counts) == IF Lets({}, asks, counts) THEN {1} ELSE {}

-----------------------------------------------------------------------------
(* The log. *)

(* What is bounded may still happen. *)
Still(word, some) == IF left[word] > 0 THEN some ELSE {}

Spend(word) == left' = [left EXCEPT ![word] = @ - 1]

Pend(some) == IF Pending # {} THEN some ELSE {}

Appended(kind, of, by) ==
    /\ entries' = Append(entries, [kind |-> kind, of |-> of, by |-> by])
    /\ store' = [store EXCEPT !.line = Append(@, Len(entries) + 1)]

AtHead(r) == Len(archive[r].line) = Len(store.line)

Backup(r) ==
    /\ Spend("plain") /\ AtHead(r)
    /\ Appended("plain", 0, r)
    /\ UNCHANGED <<copy, archive, told>>

BackupWithQuorum(r) ==
    /\ Spend("quorum") /\ AtHead(r)
    /\ Pending = {}
    /\ Appended("quorum", 0, r)
    /\ UNCHANGED <<copy, archive, told>>

(* Success is told of once so many have executed the entry that says so. *)
Tellable(pointer) ==
    {entries[store.line[i]].of : i \in
        {j \in Of(store.line, "acknowledged") :
            Cardinality({r \in Counted \ store.lost : pointer[r] >= j}) >= Size}}

Executes(r, x) ==
    /\ archive' = [archive EXCEPT ![r].line = Append(@, IF x \in Failed THEN -x ELSE x), ![r].named = TRUE]
    /\ store' = [store EXCEPT !.pointer[r] = Len(archive[r].line) + 1]
    /\ told' = told \union Tellable([store.pointer EXCEPT ![r] = Len(archive[r].line) + 1])
               \union (IF entries[x].kind = "plain" /\ entries[x].by = r THEN {x} ELSE {})

Execute(r) ==
    /\ Len(archive[r].line) < Len(store.line) /\ Len(archive[r].line) + 1 >= store.start
    /\ Executes(r, store.line[Len(archive[r].line) + 1])
    /\ UNCHANGED <<entries, copy, left>>

(* A store that was put back does not know how far a replica is. *)
Note(r) ==
    /\ store.pointer[r] < Len(archive[r].line)
    /\ store' = [store EXCEPT !.pointer[r] = Len(archive[r].line)]
    /\ told' = told \union Tellable([store.pointer EXCEPT ![r] = Len(archive[r].line)])
    /\ UNCHANGED <<entries, copy, archive, left>>

Votes(x) ==
    {r \in Counted \ store.lost : store.pointer[r] >= Index(store.line, x) /\ x \in Content(archive[r])}

Acknowledge(r) ==
    \E x \in Pending :
        /\ r \in Votes(x) /\ Cardinality(Votes(x)) >= Size
        /\ IF Guard("success is an entry")
           THEN Appended("acknowledged", x, r)
           ELSE store' = [store EXCEPT !.won = @ \union {x}] /\ UNCHANGED entries
        /\ told' = IF Guard("success is an entry") /\ Guard("nobody is told before a quorum has executed the success")
                   THEN told ELSE told \union {x}
        /\ UNCHANGED <<copy, archive, left>>

(* The deadline is over. *)
Fail ==
    /\ Spend("fail")
    /\ \E x \in Pending : Appended("drop", x, 0)
    /\ UNCHANGED <<copy, archive, told>>

Behind == {r \in store.rows : store.pointer[r] < Len(store.line)}

Trim ==
    /\ Spend("trim")
    /\ store.start <= Len(store.line)
    /\ store.rows # Behind \union store.lost
    /\ store' = [store EXCEPT !.start = Len(store.line) + 1, !.lost = @ \union Behind]
    /\ UNCHANGED <<entries, copy, archive, told>>

-----------------------------------------------------------------------------
(* Lost replicas, and members. *)

BecomesLost(r) ==
    /\ r \in store.rows \ store.lost /\ store.rows \ store.lost # {r}
    /\ store' = [store EXCEPT !.lost = @ \union {r}]
    /\ UNCHANGED <<entries, copy, archive, told>>

Lose(r) == Spend("lose") /\ BecomesLost(r)

(* Whoever looks marks it. *)
Find(r) ==
    /\ archive[r].recovering \/ archive[r].aside \/ Len(archive[r].line) < store.pointer[r]
    /\ BecomesLost(r) /\ UNCHANGED left

Recovers == {r \in store.rows \intersect store.lost : ~Contradicts(store, archive[r])}

(* Who may be copied from: it has all that has succeeded. *)
Sources(r) ==
    {s \in Good : /\ store.pointer[s] <= Len(archive[s].line) /\ store.pointer[s] >= Acknowledged
                  /\ \/ archive[r].aside \/ store.pointer[s] >= Len(archive[r].line)
                     \/ ~Guard("the source has executed what the lost one has")
                  /\ Lets({r, s}, TRUE, FALSE)}

(* One that is killed when it has begun. *)
Begin(r) ==
    /\ ~archive[r].recovering /\ archive[r].store # 0
    /\ Sources(r) # {}
    /\ archive' = [archive EXCEPT ![r].recovering = TRUE]
    /\ UNCHANGED <<entries, store, copy, told, left>>

RecoverFrom(r, s) ==
    /\ \A i \in Joins(r) :
          store.pointer[s] >= i \/ ~Guard("the source has executed the addition of whom it is copied to")
    /\ archive' = [archive EXCEPT ![r] = archive[s]]
    /\ LET again == r \in store.new /\ Guard("a new replica that is recovered is an entry again")
       IN /\ entries' = IF again THEN Append(entries, [kind |-> "join", of |-> r, by |-> 0]) ELSE entries
          /\ store' = [store EXCEPT !.pointer[r] = Len(archive[s].line), !.lost = @ \ {r}, !.new = @ \ {r},
                                    !.line = IF again THEN Append(@, Len(entries) + 1) ELSE @]
    /\ told' = told \union Tellable([store.pointer EXCEPT ![r] = Len(archive[s].line)])
    /\ UNCHANGED <<copy, left>>

Recover(r) == \E s \in Sources(r) : RecoverFrom(r, s)

Add(r) ==
    /\ Spend("change")
    /\ r \notin store.rows /\ archive[r].store = 0
    /\ IF Guard("an addition is an entry")
       THEN entries' = Append(entries, [kind |-> "join", of |-> r, by |-> 0])
       ELSE UNCHANGED entries
    /\ store' = [store EXCEPT !.rows = @ \union {r}, !.lost = @ \union {r}, !.new = @ \union {r},
                              !.line = IF Guard("an addition is an entry") THEN Append(@, Len(entries) + 1) ELSE @]
    /\ UNCHANGED <<copy, archive, told>>

Remove(r) ==
    /\ Spend("change")
    /\ r \in store.rows \ store.lost /\ store.rows \ store.lost # {r} /\ Leaves(r) = {}
    /\ Appended("leave", r, 0)
    /\ UNCHANGED <<copy, archive, told>>

(* The row stays until the replica has executed that it is removed. *)
Leave(r) ==
    /\ r \in store.rows
    /\ \E i \in Leaves(r) :
          /\ store.pointer[r] >= i
          /\ Enlarged(i, Present)
    /\ store' = [store EXCEPT !.rows = @ \ {r}, !.lost = @ \ {r}, !.new = @ \ {r}]
    /\ UNCHANGED <<entries, copy, archive, told, left>>

-----------------------------------------------------------------------------
(* Copies of the store. *)

Take ==
    /\ Spend("take")
    /\ copy' = store
    /\ UNCHANGED <<entries, store, archive, told>>

Put ==
    /\ copy # NoStore /\ copy # store
    /\ Spend("put")
    /\ store' = copy
    /\ copy' = IF Turns THEN store ELSE copy
    /\ UNCHANGED <<entries, archive, told>>

(* The log goes on from one replica, as somebody decides who is shown what the others have, and who was not read. *)

Fresh == Max({archive[r].store : r \in Replicas} \union {store.id} \union {b[1] : b \in store.before}) + 1

Usable(r) == archive[r].store # 0 /\ ~archive[r].recovering /\ ~archive[r].aside

Before(c, same) == UNION {archive[r].before \union {<<archive[r].store, Len(archive[c].line)>>} : r \in same}
RowsOf(c) == (Names(archive[c].line) \union store.rows) \ Named(archive[c].line, "leave")

Rebuilt(c, there, same, new, before) ==
    /\ store' = [id |-> new, line |-> [i \in 1..Len(archive[c].line) |-> Abs(archive[c].line[i])],
                 start |-> Len(archive[c].line) + 1, counts |-> Len(archive[c].line),
                 before |-> before,
                 lost |-> RowsOf(c) \ same, won |-> {}, rows |-> RowsOf(c), new |-> {},
                 pointer |-> [r \in Replicas |-> IF r \in same THEN Len(archive[c].line) ELSE 0]]
    /\ archive' = [r \in Replicas |->
                      IF r \in there
                      THEN [archive[r] EXCEPT !.store = new, !.before = before, !.named = FALSE,
                                              !.aside = r \notin same]
                      ELSE archive[r]]
    /\ told' = told \intersect Content(archive[c])

Rebuild(R) ==
    /\ ~(Asked(R) \subseteq Clear) \* it is needed
    /\ Spend("rebuild")
    /\ \E there \in {{r \in Asked(R) : archive[r].store # 0}} :
       \E c \in {r \in there : Usable(r)} :
       \E same \in {{r \in there : Usable(r) /\ archive[r].line = archive[c].line}} :
       \E before \in {Before(c, same)} :
          Rebuilt(c, there, same, Fresh, before)
    /\ UNCHANGED <<entries, copy>>

-----------------------------------------------------------------------------

Prompt ==
    \/ \E i \in Still("take", {1}) : Take
    \/ \E i \in Still("put", {1}) : Put
    \/ \E r \in Still("plain", Authors \intersect Who(TRUE, FALSE)) : Backup(r)
    \/ \E r \in Still("quorum", Authors \intersect Who(TRUE, TRUE)) :
          BackupWithQuorum(r)
    \/ \E r \in Who(Guard("a sync asks"), FALSE) : Execute(r) \/ Note(r)
    \/ \E r \in Pend(Who(TRUE, TRUE)) : Acknowledge(r)
    \/ \E i \in Still("fail", Pend(Whoever(TRUE, TRUE))) : Fail
    \/ \E i \in Still("trim", Whoever(TRUE, FALSE)) : Trim
    \/ \E r \in Still("lose", Replicas) : Lose(r)
    \/ \E r \in Replicas : Find(r) \/ Leave(r)
    \/ \E r \in Recovers : Begin(r) \/ Recover(r)
    \/ \E i \in Still("change", Whoever(TRUE, FALSE)) : \E r \in Replicas : Add(r) \/ Remove(r)
    \/ \E R \in Still("rebuild", Looks) : Rebuild(R)

(* Who has asked before a copy was put back goes on with what is there by now: only its own replica must agree. *)
Suspended ==
    \/ \E r \in Still("plain", Authors \intersect Good) : Backup(r)
    \/ \E r \in Still("quorum", Authors \intersect Good) : BackupWithQuorum(r)
    \/ \E r \in Good : Execute(r) \/ Note(r)
    \/ \E r \in Pend(Good) : Acknowledge(r)

Next ==
    \/ Prompt /\ UNCHANGED late
    \/ late > 0 /\ late' = late - 1 /\ Suspended

Safe == Init /\ [][Next]_vars

-----------------------------------------------------------------------------
(* What must hold. *)

(* Whatever succeeded with a quorum, and was told of, is in every sequential read. *)
Shown(r) == Content(archive[r]) \ (Pending \union Failed)

Promised == {x \in told : entries[x].kind = "quorum"}

ReadAfterWrite ==
    Promised # {} =>
        \A r \in Good :
            \/ Promised \subseteq Shown(r)
            \/ Len(archive[r].line) < Max({Acknowledged, store.start - 1})
            \/ ~Lets({r}, Guard("a sequential read asks"), Guard("a sequential read needs n - q + 1"))

(* No two replicas have executed different entries at one index, but what is set aside. *)
OneLog ==
    \A r, s \in {x \in Replicas : ~archive[x].aside} :
        \A i \in 1..Len(archive[r].line) :
            i <= Len(archive[s].line) => Abs(archive[r].line[i]) = Abs(archive[s].line[i])

(* What somebody was told of is somewhere, and not set aside, until it is given up by name. *)
Kept == \A x \in told : \E r \in Replicas : ~archive[r].aside /\ x \in Content(archive[r])

(* Nothing is in the way, and somebody can be copied from once it is synced; or a rebuilding can be. *)
WayOut ==
    IF Asked(Replicas) \subseteq Clear
    THEN Good # {}
    ELSE \E r \in Asked(Replicas) : Usable(r)

(* After a rebuilding for which all could be read, nothing is in the way. *)
Mended == [][left'.rebuild < left.rebuild /\ ~Apart => Asked(Replicas)' \subseteq Clear']_vars

=============================================================================
