---------------------------- MODULE PutAndVerify ----------------------------
(* The locks of locking/: put-and-verify transactions with leases, markers and reaping.                        *)
(*                                                                                                             *)
(* One transaction is one client's attempt to take the lock of one resource: verify, PUT the intent, verify    *)
(* again, PUT the target, DELETE the intent. A transaction's id is a number; smaller ones win ties.            *)
(* README.md beside this file says what is modelled, and what is not.                                          *)
EXTENDS Integers, Sequences

CONSTANTS
    Txns,     \* ids of transactions: a set of numbers
    Readers,  \* those of them that read; the others write
    Listing,  \* "snapshot", or how a listing is read while others write: "ordered" (in key order), "unordered"
    Patience, \* of a writer that waits for others to leave: "none", "some" or "endless"
    Retries,  \* whether a transaction that withdrew in good order may begin anew
    Timed,    \* whether time passes, leases run out and a reaper works
    Crashes,  \* the transactions whose client may die
    Late,     \* the transactions whose PUTs may take any time and be given up before they land, or never land
    Ends,     \* the transactions whose lock somebody else may end: `break`, or a release by another process
    Forgets,  \* whether markers are removed in the end
    Removed   \* the guards of the protocol that are left out; {} in the protocol as it is

VARIABLES
    pc,       \* where each client is
    scan,     \* how many parts of its present look it has read
    verdict,  \* what that look showed so far: Clear, Again or Withdraw
    intent,   \* the age of each transaction's intent in the store, or Absent
    target,   \* the same of its target
    dead,     \* the transactions that have a DEAD marker
    flying,   \* what each has a PUT of under way: "intent", "target"
    run,      \* how long ago the client began the PUT of its intent, or of the renewal that is under way
    since,    \* how long ago it began the PUT that its trust counts from
    soiled,   \* the transactions that know that something of theirs may come late
    ended,    \* the locks that somebody else ended on purpose
    lost,     \* the holders whose lease was over
    reaper    \* what the reaper is about to do, and to whom

vars == <<pc, scan, verdict, intent, target, dead, flying, run, since, soiled, ended, lost, reaper>>
store == <<intent, target, dead, flying>>
clocks == <<run, since, lost>>

Guard(name) == name \notin Removed

(* A lock is trusted at the ages 0 and 1; others wait for age 2. Ages stop there: older is just as old.        *)
(* Grace is for clocks that are rounded and for looks that take time; here it may be 0.                        *)
Lease == 2
Budget == 1
Expiry == IF Guard("nobody is reaped before its lease is over") THEN Lease ELSE 1
IntentExpiry == IF Guard("no intent is reaped while it may become a target") THEN Lease ELSE 1
Oldest == 2
Absent == -1

Clear == 0
Again == 1
Withdraw == 2

Max(a, b) == IF a > b THEN a ELSE b
Older(age) == IF age = Absent \/ age = Oldest THEN age ELSE age + 1
IsReader(c) == c \in Readers
Excludes(a, b) == a # b /\ ~(IsReader(a) /\ IsReader(b))

Attempting == {"ready", "intending", "looking", "sure", "writing", "finishing", "withdrawing"}
Holding == {"held", "renewing"}
UnderWay == {"intending", "looking", "sure", "writing", "finishing", "renewing"}
Trusting == Holding \union {"writing", "finishing"}
Over == {"out", "released", "crashed"}

TypeOK ==
    /\ pc \in [Txns -> Attempting \union Holding \union Over \union {"idle", "releasing", "removing"}]
    /\ scan \in [Txns -> 0..4]
    /\ verdict \in [Txns -> Clear..Withdraw]
    /\ intent \in [Txns -> Absent..Oldest]
    /\ target \in [Txns -> Absent..Oldest]
    /\ flying \in [Txns -> SUBSET {"intent", "target"}]
    /\ run \in [Txns -> 0..Oldest]
    /\ since \in [Txns -> 0..Lease]
    /\ dead \subseteq Txns /\ soiled \subseteq Txns /\ ended \subseteq Txns /\ lost \subseteq Txns

Init ==
    /\ pc = [c \in Txns |-> "idle"]
    /\ scan = [c \in Txns |-> 0]
    /\ verdict = [c \in Txns |-> Clear]
    /\ intent = [c \in Txns |-> Absent]
    /\ target = [c \in Txns |-> Absent]
    /\ dead = {}
    /\ flying = [c \in Txns |-> {}]
    /\ run = [c \in Txns |-> 0]
    /\ since = [c \in Txns |-> 0]
    /\ soiled = {} /\ ended = {} /\ lost = {}
    /\ reaper = <<"watching", 0>>

-----------------------------------------------------------------------------
(* What a look shows. Names sort INTENT before READ and WRIT, so a listing in key order reads intents first.   *)

Parts ==
    CASE Listing = "snapshot" -> <<"both">>
      [] Listing = "ordered" ->
            IF Guard("intents sort before targets") THEN <<"intent", "target">> ELSE <<"target", "intent">>
      [] Listing = "unordered" ->
            IF Guard("two listings where one is unordered")
            THEN <<"target", "intent", "target", "intent">> ELSE <<"target", "intent">>

SeesIntent(part, x) == part # "target" /\ intent[x] # Absent /\ x \notin dead
SeesTarget(part, x) == part # "intent" /\ target[x] # Absent /\ x \notin dead

(* What a reader, and a writer, does about x, of which this part of a listing shows something. *)
ReaderAbout(x, part) ==
    IF IsReader(x) \/ ~Guard("readers look for writers") THEN Clear
    ELSE IF SeesTarget(part, x) \/ Guard("readers give way to intents") THEN Withdraw
    ELSE Again

WriterAbout(c, x, part) ==
    IF IsReader(x) THEN Again
    ELSE IF SeesTarget(part, x) \/ pc[c] = "idle" \/ x < c THEN Withdraw
    ELSE IF ~Guard("the winner of a tie keeps its intent") THEN Withdraw
    ELSE IF ~Guard("the winner of a tie looks again") THEN Clear
    ELSE Again

About(c, x, part) ==
    IF ~SeesIntent(part, x) /\ ~SeesTarget(part, x) THEN Clear
    ELSE IF IsReader(c) THEN ReaderAbout(x, part) ELSE WriterAbout(c, x, part)

Worst(c, part) ==
    LET shown == {About(c, x, part) : x \in Txns \ {c}}
    IN IF Withdraw \in shown THEN Withdraw ELSE IF Again \in shown THEN Again ELSE Clear

(* Reading the next part of a listing; after the last one the client decides. *)
Read(c) ==
    /\ scan[c] < Len(Parts) - 1
    /\ scan' = [scan EXCEPT ![c] = @ + 1]
    /\ verdict' = [verdict EXCEPT ![c] = Max(@, Worst(c, Parts[scan[c] + 1]))]
    /\ UNCHANGED <<pc, intent, target, dead, flying, run, since, soiled, ended, lost, reaper>>

Found(c) == Max(verdict[c], Worst(c, Parts[Len(Parts)]))

Decide(c, next) ==
    /\ scan[c] = Len(Parts) - 1
    /\ scan' = [scan EXCEPT ![c] = 0]
    /\ verdict' = [verdict EXCEPT ![c] = Clear]
    /\ pc' = [pc EXCEPT ![c] = next]

Undone(c) == IF Retries /\ c \notin soiled THEN "idle" ELSE "out"

-----------------------------------------------------------------------------
(* A transaction, step by step (locking/transaction.py). *)

(* The first look spares the others an intent. It is no guard: where Timed, it is left out. *)
ReadFirst(c) == ~Timed /\ pc[c] = "idle" /\ Read(c)

VerifyFirst(c) ==
    /\ ~Timed /\ pc[c] = "idle"
    /\ IF Found(c) = Clear \/ (Found(c) = Again /\ Patience # "none")
       THEN Decide(c, "ready") ELSE Decide(c, Undone(c))
    /\ UNCHANGED <<intent, target, dead, flying, run, since, soiled, ended, lost, reaper>>

(* A PUT lands at once, or, where Late, whenever it likes. *)
Start(c, kind, waiting) ==
    /\ pc' = [pc EXCEPT ![c] = waiting]
    /\ IF c \in Late
       THEN /\ flying' = [flying EXCEPT ![c] = @ \union {kind}]
            /\ UNCHANGED <<intent, target>>
       ELSE /\ intent' = [intent EXCEPT ![c] = IF kind = "intent" THEN 0 ELSE @]
            /\ target' = [target EXCEPT ![c] = IF kind = "target" THEN 0 ELSE @]
            /\ UNCHANGED flying

AfterIntent == IF Guard("the second look") THEN "looking" ELSE "sure"

PutIntent(c) ==
    /\ pc[c] = "ready" \/ (Timed /\ pc[c] = "idle")
    /\ Start(c, "intent", IF c \in Late THEN "intending" ELSE AfterIntent)
    /\ run' = [run EXCEPT ![c] = 0]
    /\ UNCHANGED <<scan, verdict, dead, since, soiled, ended, lost, reaper>>

IntentPut(c) ==
    /\ pc[c] = "intending" /\ "intent" \notin flying[c]
    /\ pc' = [pc EXCEPT ![c] = AfterIntent]
    /\ UNCHANGED <<scan, verdict, intent, target, dead, flying, run, since, soiled, ended, lost, reaper>>

ReadAgain(c) == pc[c] = "looking" /\ Read(c)

VerifyAlone(c) ==
    /\ pc[c] = "looking"
    /\ IF intent[c] = Absent \/ c \in dead
       THEN Decide(c, "withdrawing") /\ soiled' = soiled \union {c}
       ELSE /\ UNCHANGED soiled
            /\ CASE Found(c) = Clear -> Decide(c, "sure")
                 [] Found(c) = Withdraw -> Decide(c, "withdrawing")
                 [] Found(c) = Again ->
                       \/ Patience # "none" /\ Decide(c, "looking")
                       \/ Patience # "endless" /\ Decide(c, "withdrawing")
    /\ UNCHANGED <<intent, target, dead, flying, run, since, ended, lost, reaper>>

InTime(c) == run[c] <= Budget \/ ~Guard("the fence")

PutTarget(c) ==
    /\ pc[c] = "sure"
    /\ IF Guard("the fence is after the target") \/ InTime(c)
       THEN /\ Start(c, "target", "writing")
            /\ since' = [since EXCEPT ![c] = 0]
            /\ UNCHANGED soiled
       ELSE /\ pc' = [pc EXCEPT ![c] = "withdrawing"]
            /\ soiled' = soiled \union {c}
            /\ UNCHANGED <<since, intent, target, flying>>
    /\ UNCHANGED <<scan, verdict, dead, run, ended, lost, reaper>>

(* The fence: where the intent may have been ended before the target came, fail. *)
TargetPut(c) ==
    /\ pc[c] = "writing" /\ "target" \notin flying[c]
    /\ IF InTime(c) \/ ~Guard("the fence is after the target")
       THEN pc' = [pc EXCEPT ![c] = "finishing"] /\ UNCHANGED soiled
       ELSE pc' = [pc EXCEPT ![c] = "withdrawing"] /\ soiled' = soiled \union {c}
    /\ UNCHANGED <<scan, verdict, intent, target, dead, flying, run, since, ended, lost, reaper>>

(* The intent's DELETE; where Late, its failure does no harm. *)
Finish(c) ==
    /\ pc[c] = "finishing"
    /\ pc' = [pc EXCEPT ![c] = "held"]
    /\ lost' = IF since[c] = Lease THEN lost \union {c} ELSE lost
    /\ run' = [run EXCEPT ![c] = 0]
    /\ \/ intent' = [intent EXCEPT ![c] = Absent]
       \/ c \in Late /\ UNCHANGED intent
    /\ UNCHANGED <<scan, verdict, target, dead, flying, since, soiled, ended, reaper>>

(* The client does not wait for its PUT any longer: it may still land. *)
GiveUp(c) ==
    /\ c \in Late /\ pc[c] \in {"intending", "writing", "renewing"}
    /\ pc' = [pc EXCEPT ![c] = IF @ = "renewing" THEN "held" ELSE "withdrawing"]
    /\ soiled' = IF Guard("DEAD by who gives up") THEN soiled \union {c} ELSE soiled
    /\ UNCHANGED <<scan, verdict, intent, target, dead, flying, run, since, ended, lost, reaper>>

(* What a client that is gone knew is of no more interest. *)
Rest(c) ==
    /\ run' = [run EXCEPT ![c] = 0]
    /\ since' = [since EXCEPT ![c] = 0]
    /\ soiled' = soiled \ {c}
    /\ lost' = lost \ {c}

(* DEAD first, where something may come late; then the objects go. *)
Mark(c) ==
    /\ pc[c] \in {"withdrawing", "releasing"} /\ c \in soiled
    /\ dead' = dead \union {c}
    /\ pc' = [pc EXCEPT ![c] = "removing"]
    /\ UNCHANGED <<scan, verdict, intent, target, flying, run, since, soiled, ended, lost, reaper>>

Remove(c) ==
    /\ pc[c] = "removing" \/ (pc[c] \in {"withdrawing", "releasing"} /\ c \notin soiled)
    /\ intent' = [intent EXCEPT ![c] = Absent]
    /\ target' = [target EXCEPT ![c] = Absent]
    /\ pc' = [pc EXCEPT ![c] = IF @ = "releasing" THEN "released" ELSE Undone(c)]
    /\ Rest(c)
    /\ UNCHANGED <<scan, verdict, dead, flying, ended, reaper>>

-----------------------------------------------------------------------------
(* A lock that is held (locking/lease.py). *)

(* The holder's own clock. *)
Trusted(c) == pc[c] \in Holding /\ since[c] < Lease

(* What check() would say, were it to begin now; less its look for other holders, which must not be needed. *)
Stands(c) == Trusted(c) /\ target[c] # Absent /\ (c \notin dead \/ ~Guard("a holder heeds its DEAD"))

Alone(c) == \A x \in Txns : Excludes(c, x) => target[x] = Absent \/ x \in dead

(* Only renewals that may be late are of interest. *)
Renew(c) ==
    /\ Timed /\ c \in Late /\ pc[c] = "held" /\ Stands(c) /\ Alone(c) /\ flying[c] = {}
    /\ Start(c, "target", "renewing")
    /\ run' = [run EXCEPT ![c] = 0]
    /\ since' = IF Guard("trust counts from what was acknowledged") THEN since ELSE [since EXCEPT ![c] = 0]
    /\ UNCHANGED <<scan, verdict, dead, soiled, ended, lost, reaper>>

Renewed(c) ==
    /\ pc[c] = "renewing" /\ "target" \notin flying[c]
    /\ pc' = [pc EXCEPT ![c] = "held"]
    /\ IF since[c] < Lease \/ ~Guard("a lease that is over stays over")
       THEN since' = [since EXCEPT ![c] = IF ~Guard("trust counts from the start") THEN 0
                                          ELSE IF run[c] < Lease THEN run[c] ELSE Lease]
       ELSE UNCHANGED since
    /\ run' = [run EXCEPT ![c] = 0]
    /\ UNCHANGED <<scan, verdict, intent, target, dead, flying, soiled, ended, lost, reaper>>

(* Whoever releases while a renewal is under way does not wait for ever: DEAD first. *)
Release(c) ==
    /\ pc[c] \in Holding
    /\ pc' = [pc EXCEPT ![c] = "releasing"]
    /\ run' = [run EXCEPT ![c] = 0]
    /\ since' = [since EXCEPT ![c] = 0]
    /\ lost' = lost \ {c}
    /\ soiled' = IF pc[c] = "renewing" /\ Guard("DEAD by who releases during a renewal")
                 THEN soiled \union {c} ELSE soiled
    /\ UNCHANGED <<scan, verdict, intent, target, dead, flying, ended, reaper>>

-----------------------------------------------------------------------------
(* What happens to clients. *)

Crash(c) ==
    /\ c \in Crashes /\ pc[c] \notin Over \union {"idle"}
    /\ pc' = [pc EXCEPT ![c] = "crashed"]
    /\ scan' = [scan EXCEPT ![c] = 0]
    /\ verdict' = [verdict EXCEPT ![c] = Clear]
    /\ Rest(c)
    /\ UNCHANGED <<intent, target, dead, flying, ended, reaper>>

Land(c, kind) ==
    /\ kind \in flying[c]
    /\ flying' = [flying EXCEPT ![c] = @ \ {kind}]
    /\ intent' = [intent EXCEPT ![c] = IF kind = "intent" THEN 0 ELSE @]
    /\ target' = [target EXCEPT ![c] = IF kind = "target" THEN 0 ELSE @]
    /\ UNCHANGED <<pc, scan, verdict, dead, run, since, soiled, ended, lost, reaper>>

(* Time passes for those that may die or be late. The others are prompt: they do everything, and renew, in time, *)
(* so that nothing of theirs grows old. What is marked as dead need not age.                                    *)
Slow == Crashes \union Late
Ages(c) == c \in Slow \ dead

Tick ==
    /\ Timed
    /\ intent' = [c \in Txns |-> IF Ages(c) THEN Older(intent[c]) ELSE intent[c]]
    /\ target' = [c \in Txns |-> IF Ages(c) THEN Older(target[c]) ELSE target[c]]
    /\ run' = [c \in Txns |-> IF c \in Slow /\ pc[c] \in UnderWay THEN Older(run[c]) ELSE run[c]]
    /\ since' = [c \in Txns |-> IF c \in Slow /\ pc[c] \in Trusting THEN Older(since[c]) ELSE since[c]]
    /\ lost' = lost \union {c \in Txns : pc[c] \in Holding /\ since'[c] = Lease}
    /\ UNCHANGED <<pc, scan, verdict, dead, flying, soiled, ended, reaper>>

-----------------------------------------------------------------------------
(* Reaping (locking/reaper.py), in steps between which anything may happen. *)

Listed(x) == intent[x] # Absent \/ target[x] # Absent

IsOver(x) ==
    \/ target[x] # Absent /\ target[x] >= Expiry
    \/ target[x] = Absent /\ intent[x] # Absent /\ intent[x] >= IntentExpiry

IntentIsOver(x) == target[x] # Absent /\ target[x] < Expiry /\ intent[x] # Absent /\ intent[x] >= IntentExpiry

AboutTo(what, x) == reaper' = <<what, x>>

Judge(x) ==
    /\ Timed /\ reaper[1] = "watching"
    /\ \/ x \in dead /\ Listed(x) /\ AboutTo("deleting", x)
       \/ x \notin dead /\ IsOver(x)
            /\ AboutTo(IF Guard("DEAD by the reaper") THEN "burying" ELSE "deleting", x)
       \/ x \notin dead /\ IntentIsOver(x)
            /\ AboutTo(IF Guard("no DEAD where the target stands") THEN "dropping" ELSE "burying", x)
    /\ UNCHANGED <<pc, scan, verdict, store, clocks, soiled, ended>>

Bury ==
    /\ reaper[1] = "burying"
    /\ dead' = dead \union {reaper[2]}
    /\ AboutTo("deleting", reaper[2])
    /\ UNCHANGED <<pc, scan, verdict, intent, target, flying, clocks, soiled, ended>>

Delete ==
    /\ reaper[1] \in {"deleting", "dropping"}
    /\ intent' = [intent EXCEPT ![reaper[2]] = Absent]
    /\ target' = IF reaper[1] = "deleting" THEN [target EXCEPT ![reaper[2]] = Absent] ELSE target
    /\ reaper' = <<"watching", 0>>
    /\ UNCHANGED <<pc, scan, verdict, dead, flying, clocks, soiled, ended>>

(* A person breaks a lock, or another process releases it. *)
End(x) ==
    /\ x \in Ends /\ reaper[1] = "watching" /\ x \notin dead /\ pc[x] \in Holding /\ target[x] # Absent
    /\ ended' = ended \union {x}
    /\ AboutTo(IF Guard("DEAD by who ends another's lock") THEN "burying" ELSE "deleting", x)
    /\ UNCHANGED <<pc, scan, verdict, store, clocks, soiled>>

(* A marker outlives every lease, every attempt in time and every request; but not a client that is suspended. *)
Outlived(x) ==
    /\ flying[x] = {} /\ ~Listed(x)
    /\ pc[x] \in Holding => since[x] = Lease
    /\ pc[x] \in UnderWay \ {"renewing"} => run[x] > Budget

Forget(x) ==
    /\ Forgets /\ x \in dead /\ reaper[2] # x /\ Outlived(x)
    /\ dead' = dead \ {x}
    /\ UNCHANGED <<pc, scan, verdict, intent, target, flying, clocks, soiled, ended, reaper>>

-----------------------------------------------------------------------------

(* What a client does of its own accord, once it has begun. *)
Step(c) ==
    \/ ReadFirst(c) \/ VerifyFirst(c) \/ PutIntent(c) \/ IntentPut(c) \/ ReadAgain(c) \/ VerifyAlone(c)
    \/ PutTarget(c) \/ TargetPut(c) \/ Finish(c) \/ Mark(c) \/ Remove(c)

Next ==
    \/ \E c \in Txns :
          \/ pc[c] = "idle" /\ (ReadFirst(c) \/ VerifyFirst(c) \/ PutIntent(c))
          \/ pc[c] \in Attempting /\
                (\/ PutIntent(c) \/ IntentPut(c) \/ ReadAgain(c) \/ VerifyAlone(c)
                 \/ PutTarget(c) \/ TargetPut(c) \/ Finish(c) \/ GiveUp(c) \/ Mark(c) \/ Remove(c))
          \/ pc[c] \in Holding /\ (Renew(c) \/ Renewed(c) \/ GiveUp(c) \/ Release(c) \/ End(c))
          \/ pc[c] \in {"releasing", "removing"} /\ (Mark(c) \/ Remove(c))
          \/ Crash(c) \/ Judge(c) \/ Forget(c)
    \/ \E c \in Txns : \E kind \in flying[c] : Land(c, kind)
    \/ Bury \/ Delete \/ Tick

Safe == Init /\ [][Next]_vars

(* Whoever can go on does in the end, whoever holds the lock gives it up, what is under way lands or does not,
   the reaper works and time passes. Nobody has to crash, give up, renew or break. *)
Fair ==
    /\ \A c \in Txns : WF_vars(Step(c)) /\ WF_vars(Renewed(c)) /\ WF_vars(Release(c)) /\ WF_vars(Forget(c))
    /\ \A c \in Txns : \A kind \in {"intent", "target"} : WF_vars(Land(c, kind))
    /\ \A c \in Txns : WF_vars(Judge(c))
    /\ WF_vars(Bury \/ Delete)
    /\ WF_vars(Tick)

Spec == Safe /\ Fair

-----------------------------------------------------------------------------
(* What must hold. *)

(* No two whose check(), begun now, would both succeed, exclude each other. *)
MutualExclusion == \A a, b \in Txns : Excludes(a, b) => ~(Stands(a) /\ Stands(b))

(* While a holder trusts its own clock, its lock stands in the store, unless somebody ended it on purpose. *)
LeaseHolds == \A c \in Txns : Trusted(c) /\ c \notin ended => Stands(c)

(* And nobody else's target is beside it. Only a client suspended for longer than a marker lives can break this. *)
Undisturbed == \A c \in Txns : Trusted(c) /\ c \notin ended => Alone(c)

(* A holder that was told that its lock is lost is never told otherwise. *)
OverForGood == \A c \in lost : ~Trusted(c)

(* What was given up or released counts no more, whatever still lands. *)
NothingRevived == \A c \in Txns : pc[c] \in {"out", "released"} => c \in dead \/ ~Listed(c)

(* Everybody gets in, in the end. *)
Progress == <>[](\A c \in Txns : pc[c] = "released")

(* Nothing is left in the store for ever. *)
Convergence == <>[](dead = {} /\ \A c \in Txns : ~Listed(c))

=============================================================================
